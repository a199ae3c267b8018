//! Uses all session numbers. The only test of its program: it needs all of them.

#[path = "client/fake.rs"]
mod fake;

use std::thread;

use kernpack::{DataType, Device, Tensor};
use kernpack_rpc::Session;
use kernpack_rpc::wire::Value;

use fake::Server;

#[test]
fn numbers_of_sessions() {
    let server = Server::raw(Device::MAX_SESSIONS + 2, |mut served| {
        served.begin();
        // Devices outlive the session value.
        thread::spawn(move || {
            served.found(5);
            let arguments = served.called(5);
            assert_eq!(arguments, [Value::Device(Device::new(4, 3)), Value::Device(Device::CPU)]);
            served.reply(
                |values| {
                    values.int(6).device(Device::new(4, 3));
                },
                2,
            );
        });
    });
    let mut sessions: Vec<Session> = Vec::new();
    let error = loop {
        match server.connect().open() {
            Ok(session) => sessions.push(session),
            Err(error) => break error,
        }
    };
    assert_eq!(sessions.len(), Device::MAX_SESSIONS);
    assert!(error.message().contains("this process has 32 remote sessions, which is the most"), "{error}");
    let last = sessions.pop().unwrap();
    let device = last.device("opencl:3").unwrap();
    assert_eq!(device.session(), Some(last.number()));
    assert_eq!(device.to_string(), format!("remote[{}]-opencl:3", last.number()));
    let function = last.global_function("f").unwrap();
    assert_eq!(function.call_as::<Device>((device, Device::CPU)).unwrap(), device);
    let other = sessions[0].device("opencl:3").unwrap();
    let error = function.call((other,)).unwrap_err();
    assert_eq!(error.kind(), "ValueError");
    assert!(error.message().contains(&format!("{other} belongs to another session")), "{error}");
    drop((last, function));
    let error = Tensor::empty(DataType::FLOAT32, &[1], device).unwrap_err();
    assert!(error.message().contains("is not open"), "{error}");
    drop(sessions);
}
