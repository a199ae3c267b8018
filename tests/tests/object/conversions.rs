//! Objects: references, casts, registration, fields.

use kernpack::{Any, Array, Function, IntoAny, ObjRef, Object, ObjectRoot, Result};

/// Something with a name.
#[derive(Object, Debug)]
#[object(key = "objects.Named")]
#[repr(C)]
pub struct Named {
    /// The name.
    pub name: String,
}

/// A named list of numbers.
#[derive(Object, Debug)]
#[object(key = "objects.Series")]
#[repr(C)]
pub struct Series {
    #[base]
    pub base: Named,
    pub values: Array<f64>,
    pub scale: f32,
    pub limit: Option<i64>,
    /// Not public, so other languages do not see it.
    secret: u64,
}

#[derive(Object)]
#[object(key = "objects.Other")]
#[repr(C)]
pub struct Other {
    pub flag: bool,
}

fn series() -> ObjRef<Series> {
    let base = Named { name: "speeds".to_owned() };
    ObjRef::new(Series { base, values: Array::from(vec![1.0, 2.5]), scale: 0.5, limit: None, secret: 7 })
}

#[test]
fn casts_go_up_and_down_and_are_checked() {
    let object = series();
    assert_eq!(object.type_key(), "objects.Series");
    assert!(object.is::<Named>() && object.is::<Series>() && object.is::<ObjectRoot>() && !object.is::<Other>());
    let named = object.clone().upcast();
    assert_eq!(named.name, "speeds");
    assert!(named.ptr_eq(&object));
    assert_eq!(object.name, "speeds", "fields of the base are reached through it");
    let Err(named) = named.try_cast::<Other>() else { panic!("a Series is not an Other") };
    let Ok(back) = named.try_cast::<Series>() else { panic!("it was a Series") };
    assert_eq!(back.secret, 7);

    let plain = ObjRef::new(Named { name: "plain".to_owned() });
    assert!(plain.try_cast::<Series>().is_err());
}

#[test]
fn arguments_accept_derived_types_and_refuse_others() {
    let name_of = Function::from_fn(|named: ObjRef<Named>| named.name.clone());
    assert_eq!(name_of.call_as::<String>((series(),)).unwrap(), "speeds");
    let error = name_of.call((ObjRef::new(Other { flag: true }),)).unwrap_err();
    assert_eq!(error.message(), "closure(0: objects.Named): argument 0: expected objects.Named, got objects.Other");
    let error = name_of.call((1,)).unwrap_err();
    assert_eq!(error.message(), "closure(0: objects.Named): argument 0: expected objects.Named, got int");
}

#[test]
fn public_fields_are_readable_by_name() -> Result<()> {
    let any: Any = series().into_any();
    assert_eq!(any.field("name")?.to::<String>()?, "speeds");
    assert_eq!(any.field("values")?.to::<Vec<f64>>()?, [1.0, 2.5]);
    assert_eq!(any.field("scale")?.to::<f32>()?, 0.5);
    assert!(any.field("limit")?.is_none());
    let error = any.field("secret").unwrap_err();
    assert_eq!((error.kind(), error.message()), ("KeyError", "type objects.Series has no field 'secret'"));
    Ok(())
}

#[test]
fn references_share_and_release() {
    let first = series();
    let any: Any = first.clone().into();
    let second: ObjRef<Series> = any.to().unwrap();
    assert!(first.ptr_eq(&second));
    drop((first, any));
    assert_eq!(second.values.len(), 2);
}
