//! Weak references as fields: cycles that are freed, structural operations, and threads that
//! upgrade while the last strong reference is dropped.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Barrier, Mutex, PoisonError};

use kernpack::reflect::{from_json, repr, to_json};
use kernpack::structural::{Walk, deep_copy, equal, hash, recursive_equal};
use kernpack::{Field, ObjRef, Object, Result, WeakRef};
use objects::weak::{Folder, folder, folders_alive};

/// The counter of folders belongs to the process, so one test at a time has some.
static COUNTED: Mutex<()> = Mutex::new(());

/// A folder in a folder in a folder.
fn tree() -> [ObjRef<Folder>; 3] {
    let all = ["home", "music", "songs"].map(folder);
    Folder::adopt(&all[0], &all[1]);
    Folder::adopt(&all[1], &all[2]);
    all
}

#[test]
fn cycles_of_parents_and_children_are_freed() {
    let _alone = COUNTED.lock().unwrap_or_else(PoisonError::into_inner);
    let before = folders_alive();
    let [home, music, songs] = tree();
    assert_eq!((folders_alive() - before, songs.path()), (3, "home/music/songs".to_owned()));
    assert!(songs.parent().is_some_and(|parent| parent.ptr_eq(&music)) && home.parent().is_none());
    drop(home);
    assert!(music.parent().is_none(), "its parent had no other reference");
    assert_eq!((folders_alive() - before, songs.path()), (2, "music/songs".to_owned()));
    drop(songs);
    assert_eq!(folders_alive() - before, 2, "its parent keeps it");
    drop(music);
    assert_eq!(folders_alive(), before);
    // A long chain of parents, with weak references from each of its folders to each end.
    let mut folders: Vec<_> = (0..2000).map(|number| folder(&number.to_string())).collect();
    for pair in folders.windows(2) {
        Folder::adopt(&pair[0], &pair[1]);
    }
    let first = folders.swap_remove(0);
    let weak: Vec<_> = folders.drain(..).map(|folder| folder.downgrade()).collect();
    assert!(weak.iter().all(|folder| folder.upgrade().is_some()));
    drop(first);
    assert!(weak.iter().all(|folder| folder.upgrade().is_none()));
    assert_eq!(folders_alive(), before);
}

/// Operations that walk through objects do not follow the reference back, so they do not run in
/// circles.
#[test]
fn structural_operations_leave_them_out() -> Result<()> {
    let _alone = COUNTED.lock().unwrap_or_else(PoisonError::into_inner);
    let before = folders_alive();
    {
        let ([home, music, _songs], [other, ..]) = (tree(), tree());
        assert!(equal(&home, &other)? && recursive_equal(&home, &other)?);
        assert_eq!(hash(&home)?, hash(&other)?);
        let text = "objects.Folder(name=\"songs\", folders=())";
        assert_eq!(repr(&music)?.to_string(), format!("objects.Folder(name=\"music\", folders=({text},))"));
        let mut names = 0;
        Walk::new().pre(|_: ObjRef<Folder>| names += 1).run(&home)?;
        assert_eq!(names, 3);

        let again: ObjRef<Folder> = from_json(&to_json(&home)?)?.to()?;
        let inner = again.folders.get().get(0).unwrap();
        assert!(equal(&home, &again)? && inner.parent().is_none(), "what JSON made has no parent before it is adopted");

        // A copy refers to the same object as the original.
        let copy: ObjRef<Folder> = deep_copy(&home)?;
        let inner = copy.folders.get().get(0).unwrap();
        assert!(!inner.ptr_eq(&music) && inner.parent().is_some_and(|parent| parent.ptr_eq(&home)));
        let mut shared = music.clone();
        shared.make_mut()?.name = "copy".to_owned();
        assert!(!shared.ptr_eq(&music) && shared.parent().is_some_and(|parent| parent.ptr_eq(&home)));
        // A weak reference prevents changes of an object in place.
        let mut alone = folder("alone");
        let weak = alone.downgrade();
        assert!(alone.get_mut().is_none());
        drop(weak);
        assert!(alone.get_mut().is_some());
    }
    assert_eq!(folders_alive(), before);
    Ok(())
}

/// Not all types have their weak references in a `Field`.
#[derive(Object)]
#[object(key = "weak.Holder")]
#[repr(C)]
pub struct Holder {
    pub name: String,
    own: WeakRef<Folder>,
    #[field(skip)]
    pub all: Field<Option<WeakRef<Holder>>>,
    #[field(skip, default = Mutex::new(Vec::new()))]
    pub list: Mutex<Vec<WeakRef<Holder>>>,
}

#[test]
fn references_to_nothing() -> Result<()> {
    let nothing = WeakRef::<Folder>::default();
    assert!(nothing.upgrade().is_none() && nothing.clone().ptr_eq(&WeakRef::new()) && nothing.as_ptr().is_null());
    assert_eq!(format!("{nothing:?}"), "(weak objects.Folder)");
    // SAFETY: null is an empty weak reference.
    let again = unsafe { WeakRef::<Folder>::from_raw(nothing.into_raw()) };
    assert!(again.upgrade().is_none());
    // Other languages create a holder without them.
    let holder: ObjRef<Holder> = from_json("{\"root_index\":1,\"nodes\":[{\"type\":\"ffi.String\",\"data\":\"h\"},{\"type\":\"weak.Holder\",\"data\":{\"name\":0}}]}")?.to()?;
    assert!(holder.own.upgrade().is_none() && holder.all.get().is_none() && holder.list.lock().unwrap().is_empty());
    holder.all.set(Some(holder.downgrade()));
    holder.list.lock().unwrap().push(holder.downgrade());
    let weak = holder.downgrade();
    drop(holder);
    assert!(weak.upgrade().is_none(), "an object that refers to itself weakly is freed");
    Ok(())
}

/// The last strong reference is dropped while other threads upgrade, and while fields are written:
/// each upgrade returns a complete object, or nothing.
#[test]
fn threads_upgrade_while_the_last_reference_goes() {
    let _alone = COUNTED.lock().unwrap_or_else(PoisonError::into_inner);
    let before = folders_alive();
    let (rounds, threads) = (if cfg!(miri) { 5 } else { 500 }, 4);
    let (got, missed) = (AtomicUsize::new(0), AtomicUsize::new(0));
    for _ in 0..rounds {
        let [home, music, songs] = tree();
        let barrier = Barrier::new(threads + 1);
        std::thread::scope(|scope| {
            for _ in 0..threads {
                let (songs, barrier, got, missed) = (songs.clone(), &barrier, &got, &missed);
                scope.spawn(move || {
                    let other = folder("other");
                    barrier.wait();
                    for round in 0..20 {
                        match songs.parent() {
                            Some(parent) => {
                                assert!(parent.name == "music" || parent.name == "other");
                                assert!(parent.parent().is_none_or(|home| home.name == "home"));
                                got.fetch_add(1, Ordering::Relaxed);
                            }
                            None => drop(missed.fetch_add(1, Ordering::Relaxed)),
                        }
                        if round % 7 == 0 {
                            songs.parent.set(other.downgrade());
                        }
                    }
                });
            }
            barrier.wait();
            drop((home, music));
        });
        assert!(songs.parent().is_none(), "all that it was in are gone");
    }
    assert_eq!(got.into_inner() + missed.into_inner(), rounds * threads * 20);
    assert_eq!(folders_alive(), before);
}
