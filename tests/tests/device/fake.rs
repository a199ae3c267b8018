//! Devices in this process that differ from the CPU as much as possible: their memory is identified
//! by handles without address arithmetic, their streams are threads that work asynchronously, and
//! memory runs out on request.

use std::collections::HashMap;
use std::ffi::c_void;
use std::ptr;
use std::sync::mpsc::{Sender, channel};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::Instant;

use kernpack::device::{DeviceApi, DeviceAttribute, Place, RawEvent, RawStream};
use kernpack::{Any, Device, Result, bail, ensure};

type Work = Box<dyn FnOnce() + Send>;
/// The bytes of an allocation; pending work in streams also holds a reference.
type Block = Arc<Mutex<Vec<u8>>>;

/// A signal that is set once, or repeatedly.
#[derive(Default)]
pub struct Signal {
    happened: Mutex<Option<Instant>>,
    changed: Condvar,
}

impl Signal {
    pub fn set(&self) {
        *lock(&self.happened) = Some(Instant::now());
        self.changed.notify_all();
    }

    pub fn wait(&self) {
        let happened = lock(&self.happened);
        drop(self.changed.wait_while(happened, |happened| happened.is_none()).unwrap());
    }

    pub fn time(&self) -> Option<Instant> {
        *lock(&self.happened)
    }
}

struct Stream {
    device: i32,
    /// `None` when it ends.
    work: Option<Sender<Work>>,
    thread: Option<JoinHandle<()>>,
}

impl Stream {
    fn new(device: i32) -> Self {
        let (work, received) = channel::<Work>();
        let thread = std::thread::spawn(move || received.into_iter().for_each(|work| work()));
        Self { device, work: Some(work), thread: Some(thread) }
    }
}

struct Event {
    device: i32,
    /// The work that it was last recorded behind.
    recorded: Option<Arc<Signal>>,
}

#[derive(Default)]
struct State {
    blocks: HashMap<usize, (i32, Block)>,
    streams: HashMap<usize, Stream>,
    events: HashMap<usize, Event>,
    /// The last handle that was assigned.
    last: usize,
}

/// A kind of fake devices.
pub struct Fake {
    kind: i32,
    name: &'static str,
    count: i32,
    /// The number of bytes of each device.
    capacity: Mutex<usize>,
    state: Mutex<Option<State>>,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Fake {
    pub const fn new(kind: i32, name: &'static str, count: i32) -> Self {
        Self { kind, name, count, capacity: Mutex::new(64 << 20), state: Mutex::new(None) }
    }

    pub const fn device(&self, index: i32) -> Device {
        Device::new(self.kind, index)
    }

    /// The numbers of live blocks, streams (without the default ones) and events.
    pub fn alive(&self) -> [usize; 3] {
        self.with(|state| {
            let own = state.streams.keys().filter(|&&handle| handle >= FIRST_HANDLE).count();
            [state.blocks.len(), own, state.events.len()]
        })
    }

    /// Sets the number of bytes of each device.
    pub fn limit(&self, bytes: usize) {
        *lock(&self.capacity) = bytes;
    }

    /// Blocks a stream until the signal is set.
    pub fn hold(&self, device: i32, stream: RawStream) -> Arc<Signal> {
        let signal = Arc::new(Signal::default());
        let wait = signal.clone();
        self.enqueue(device, stream, Box::new(move || wait.wait())).unwrap();
        signal
    }

    fn with<T>(&self, act: impl FnOnce(&mut State) -> T) -> T {
        act(lock(&self.state).get_or_insert_with(|| State { last: FIRST_HANDLE, ..State::default() }))
    }

    fn check(&self, index: i32) -> Result<()> {
        let (name, count) = (self.name, self.count);
        ensure!((0..count).contains(&index), RuntimeError, "there is no {name}:{index}; there are {count}");
        Ok(())
    }

    fn block(&self, place: Place) -> Result<Block> {
        match self.with(|state| state.blocks.get(&(place.data as usize)).cloned()) {
            Some((index, block)) if place.device == self.device(index) => Ok(block),
            _ => bail!(RuntimeError, "{:?} is not memory of {}", place.data, place.device),
        }
    }

    fn enqueue(&self, index: i32, stream: RawStream, work: Work) -> Result<()> {
        self.check(index)?;
        self.with(|state| {
            let handle = if stream == RawStream::DEFAULT { index as usize + 1 } else { stream.0 as usize };
            if stream == RawStream::DEFAULT {
                state.streams.entry(handle).or_insert_with(|| Stream::new(index));
            }
            match state.streams.get(&handle) {
                Some(Stream { device, work: Some(sender), .. }) if *device == index => {
                    sender.send(work).unwrap();
                    Ok(())
                }
                _ => bail!(RuntimeError, "{:?} is not a stream of {}", stream.0, self.device(index)),
            }
        })
    }

    fn finish(&self, index: i32, stream: RawStream) -> Result<()> {
        let done = Arc::new(Signal::default());
        let set = done.clone();
        self.enqueue(index, stream, Box::new(move || set.set()))?;
        done.wait();
        Ok(())
    }

    fn recorded(&self, event: RawEvent) -> Result<Option<Arc<Signal>>> {
        match self.with(|state| state.events.get(&(event.0 as usize)).map(|event| event.recorded.clone())) {
            Some(recorded) => Ok(recorded),
            None => bail!(RuntimeError, "{:?} is not an event of {}", event.0, self.name),
        }
    }
}

/// Numbers of default streams are below this.
const FIRST_HANDLE: usize = 1000;

fn handle(number: usize) -> *mut c_void {
    ptr::without_provenance_mut(number)
}

fn new_handle(state: &mut State) -> usize {
    // Handles are close together, so that arithmetic on one gives another one.
    state.last += 1;
    state.last
}

impl DeviceApi for &'static Fake {
    fn name(&self) -> &str {
        self.name
    }

    fn device_count(&self) -> Result<i32> {
        Ok(self.count)
    }

    fn attribute(&self, index: i32, attribute: DeviceAttribute) -> Result<Any> {
        if attribute == DeviceAttribute::Exist {
            return Ok(Any::from(i64::from(self.check(index).is_ok())));
        }
        self.check(index)?;
        Ok(match attribute {
            DeviceAttribute::DeviceName => Any::from(format!("fake {}", self.device(index)).as_str()),
            DeviceAttribute::TotalGlobalMemory => Any::from(*lock(&self.capacity) as i64),
            _ => Any::default(),
        })
    }

    fn allocate(&self, index: i32, size: usize, _: usize) -> Result<*mut c_void> {
        self.check(index)?;
        let capacity = *lock(&self.capacity);
        self.with(|state| {
            let of_device = state.blocks.values().filter(|(device, _)| *device == index);
            let used: usize = of_device.map(|(_, block)| lock(block).len()).sum();
            ensure!(
                size <= capacity.saturating_sub(used),
                MemoryError,
                "out of memory: {} has {} of {capacity} bytes left, not {size}",
                self.device(index),
                capacity.saturating_sub(used)
            );
            let number = new_handle(state);
            state.blocks.insert(number, (index, Arc::new(Mutex::new(vec![0xA5; size]))));
            Ok(handle(number))
        })
    }

    unsafe fn free(&self, index: i32, data: *mut c_void) -> Result<()> {
        match self.with(|state| state.blocks.remove(&(data as usize))) {
            Some((device, _)) if device == index => Ok(()),
            _ => bail!(RuntimeError, "{data:?} is not memory of {}", self.device(index)),
        }
    }

    unsafe fn copy(&self, source: Place, target: Place, size: usize, stream: RawStream) -> Result<()> {
        let range = |place: Place| place.byte_offset as usize..place.byte_offset as usize + size;
        let (from, to) = (range(source), range(target));
        let is_here = |place: Place| place.device.device_type() == self.kind;
        let host = |place: Place| place.address() as usize;
        match (is_here(source), is_here(target)) {
            (true, true) => {
                let (source, block) = (self.block(source)?, self.block(target)?);
                self.enqueue(
                    target.device.index(),
                    stream,
                    Box::new(move || {
                        let bytes = lock(&source)[from].to_vec();
                        lock(&block)[to].copy_from_slice(&bytes);
                    }),
                )
            }
            (true, false) => {
                let (block, address) = (self.block(source)?, host(target));
                let index = source.device.index();
                self.enqueue(
                    index,
                    stream,
                    Box::new(move || {
                        // SAFETY: the memory is the caller's, and the caller waits for this.
                        unsafe { ptr::copy_nonoverlapping(lock(&block)[from].as_ptr(), address as *mut u8, size) }
                    }),
                )?;
                self.finish(index, stream)
            }
            (false, true) => {
                let (block, address) = (self.block(target)?, host(source));
                let index = target.device.index();
                self.enqueue(
                    index,
                    stream,
                    Box::new(move || {
                        // SAFETY: as above.
                        unsafe { ptr::copy_nonoverlapping(address as *const u8, lock(&block)[to].as_mut_ptr(), size) }
                    }),
                )?;
                self.finish(index, stream)
            }
            (false, false) => bail!(RuntimeError, "neither place is on {}", self.name),
        }
    }

    fn create_stream(&self, index: i32) -> Result<RawStream> {
        self.check(index)?;
        Ok(self.with(|state| {
            let number = new_handle(state);
            state.streams.insert(number, Stream::new(index));
            RawStream(handle(number))
        }))
    }

    unsafe fn free_stream(&self, index: i32, stream: RawStream) -> Result<()> {
        let Some(mut stream) = self.with(|state| state.streams.remove(&(stream.0 as usize))) else {
            bail!(RuntimeError, "{:?} is not a stream of {}", stream.0, self.device(index));
        };
        drop(stream.work.take());
        // Its work is still running.
        drop(stream.thread.take());
        Ok(())
    }

    unsafe fn synchronize(&self, index: i32, stream: RawStream) -> Result<()> {
        self.finish(index, stream)
    }

    fn create_event(&self, index: i32) -> Result<RawEvent> {
        self.check(index)?;
        Ok(self.with(|state| {
            let number = new_handle(state);
            state.events.insert(number, Event { device: index, recorded: None });
            RawEvent(handle(number))
        }))
    }

    unsafe fn free_event(&self, index: i32, event: RawEvent) -> Result<()> {
        match self.with(|state| state.events.remove(&(event.0 as usize))) {
            Some(event) if event.device == index => Ok(()),
            _ => bail!(RuntimeError, "{:?} is not an event of {}", event.0, self.device(index)),
        }
    }

    unsafe fn record_event(&self, index: i32, event: RawEvent, stream: RawStream) -> Result<()> {
        let signal = Arc::new(Signal::default());
        let set = signal.clone();
        self.recorded(event)?;
        self.with(|state| {
            if let Some(event) = state.events.get_mut(&(event.0 as usize)) {
                event.recorded = Some(signal);
            }
        });
        self.enqueue(index, stream, Box::new(move || set.set()))
    }

    unsafe fn wait_for_event(&self, index: i32, event: RawEvent, stream: RawStream) -> Result<()> {
        match self.recorded(event)? {
            Some(signal) => self.enqueue(index, stream, Box::new(move || signal.wait())),
            None => Ok(()),
        }
    }

    unsafe fn synchronize_event(&self, _: i32, event: RawEvent) -> Result<()> {
        if let Some(signal) = self.recorded(event)? {
            signal.wait();
        }
        Ok(())
    }

    unsafe fn elapsed(&self, _: i32, start: RawEvent, end: RawEvent) -> Result<f64> {
        let time = |event| Ok::<_, kernpack::Error>(self.recorded(event)?.and_then(|signal| signal.time()));
        match (time(start)?, time(end)?) {
            (Some(start), Some(end)) => Ok(end.saturating_duration_since(start).as_secs_f64()),
            _ => bail!(RuntimeError, "an event of {} was not recorded", self.name),
        }
    }
}
