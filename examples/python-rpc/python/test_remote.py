"""The client in Python with an RPC server, without Apache TVM in this process.

PYTHON_RPC_LIBRARY names the library of the client, CONVERSIONS_LIBRARY the one to upload, KERNPACK_APACHE_TVM a Python with Apache TVM, whose server is used.
"""

import gc
import os
import pathlib
import signal
import socket
import subprocess
import sys
import threading
import time

import numpy as np
import pytest
import tvm_ffi

import remote

SERVER = pathlib.Path(__file__).parents[3] / "runtime/rpc/tests/stock_server.py"


@pytest.fixture(scope="module")
def address():
    python = os.environ.get("KERNPACK_APACHE_TVM")
    if not python:
        assert not os.environ.get("CI"), "KERNPACK_APACHE_TVM is not set"
        pytest.skip("KERNPACK_APACHE_TVM names no Python with Apache TVM")
    server = subprocess.Popen([python, SERVER, "board"], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    yield f"127.0.0.1:{int(server.stdout.readline())}"
    server.stdin.close()
    server.wait()


@pytest.fixture
def session(address):
    # The server of Apache TVM serves one session after the other, and an abandoned one may sleep there for 10 s.
    with remote.connect(address, "board", timeout=60.0, connect_timeout=60.0) as session:
        yield session


def test_no_apache_tvm():
    assert "tvm" not in sys.modules


def test_files(session):
    assert (session.peer.split(":")[0], session.server_key) == ("127.0.0.1", "board")
    for content in [b"", b"short", bytes(range(256)) * 100]:
        session.upload_as("data.bin", content)
        assert session.download("data.bin") == content
    session.remove("data.bin")
    with pytest.raises(remote.RPCError):
        session.download("data.bin")
    with pytest.raises(OSError, match="no/such/file cannot be read"):
        session.upload("no/such/file")


@pytest.mark.parametrize("value", [None, 0, -7, True, 0.5, "", "short", "a long text with an ä", b"\0\1", b"x" * 5000])
def test_values(session, value):
    back = session.get_function("rpc_test.echo")(value)
    assert bytes(back) == value if isinstance(value, bytes) else back == value and isinstance(back, type(value))


def test_functions_and_objects(session):
    assert session.get_function("rpc_test.not_there") is None
    add = session.get_function("rpc_test.adder")(5)
    assert add(3) == 8
    assert session.get_function("rpc_test.call")(add, 10) == 15
    pair = session.get_function("rpc_test.pair")(30, 12)
    assert isinstance(pair, remote.RemoteObject)
    assert session.get_function("rpc_test.sum_of_pair")(pair) == 42
    alive = session.get_function("rpc_test.alive")
    functions = [session.get_function("rpc_test.counted")() for _ in range(5)]
    assert alive() == 5
    del functions
    gc.collect()
    assert alive() == 0
    with pytest.raises(remote.RPCError, match="number 7 is not allowed"):
        session.get_function("rpc_test.raise")("ValueError", "number 7 is not allowed")
    with pytest.raises(TypeError, match="argument 0: a Array cannot be sent to a server"):
        session.get_function("rpc_test.echo")([1, 2])


@pytest.mark.parametrize("dtype", ["int8", "uint16", "int32", "uint64", "float16", "float32", "float64"])
def test_arrays(session, dtype):
    array = np.arange(12).astype(dtype).reshape(3, 4)
    there = session.send(array)
    assert there.shape == (3, 4) and str(there.dtype) == dtype
    assert session.get_function("rpc_test.total")(there) == 66
    np.testing.assert_array_equal(np.from_dlpack(remote.receive(there)), array)
    made = session.get_function("rpc_test.arange")(5, dtype)
    np.testing.assert_array_equal(np.from_dlpack(remote.receive(made)), np.arange(5).astype(dtype))
    empty = session.empty((2, 2), dtype)
    session.get_function("rpc_test.fill")(empty, 3)
    np.testing.assert_array_equal(np.from_dlpack(remote.receive(empty)), np.full((2, 2), 3, dtype))


def test_memory_of_the_server_is_out_of_reach(session):
    there = session.send(np.zeros(4, "float32"))
    with pytest.raises(Exception):
        np.from_dlpack(there)


def test_library(session):
    path = pathlib.Path(os.environ["CONVERSIONS_LIBRARY"])
    session.upload(path)
    library = session.load_module(path.name)
    assert library.add(1, 2) == 3
    numbers = session.send(np.array([1, 2, 3], "int32"))
    library.increase_i32(numbers, 10)
    assert list(np.from_dlpack(remote.receive(numbers))) == [11, 12, 13]
    timing = session.time_evaluator(library, "increase_i32", number=2, repeat=3)(numbers, 1)
    assert len(timing.results) == 3 and 0 < timing.min <= timing.median <= timing.max
    assert str(timing).startswith("Execution time summary:\n mean (ms) ")
    with pytest.raises(ValueError, match="`number` and `repeat` are 1 at least"):
        session.time_evaluator(library, "increase_i32", number=0)


def test_sessions_apart(address):
    with pytest.raises(ConnectionError, match="another key than 'other'"):
        remote.connect(address, "other")
    with pytest.raises(ValueError, match="`timeout` is a number of seconds greater than 0, got -1"):
        remote.connect(address, "board", timeout=-1.0)
    with pytest.raises(ValueError, match="`connect_timeout` is a number of seconds greater than 0, got 0"):
        remote.connect(address, "board", connect_timeout=0.0)
    with socket.create_server(("127.0.0.1", 0)) as silent:
        with pytest.raises(TimeoutError, match="sent nothing for 0.2 s"):
            remote.connect(f"127.0.0.1:{silent.getsockname()[1]}", connect_timeout=0.2)
    with remote.connect(address, "board") as session:
        echo = session.get_function("rpc_test.echo")
    with pytest.raises(ConnectionError, match="was closed"):
        echo(1)


@pytest.fixture
def interruptible():
    """Python's own handler: a process that a shell has started in the background ignores the signal."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


def test_interrupt(address, interruptible):
    """Ctrl+C ends the wait for a reply at once, and the session with it."""
    with remote.connect(address, "board", timeout=60.0, connect_timeout=60.0) as session:
        sleep = session.get_function("rpc_test.sleep")
        timer = threading.Timer(0.5, os.kill, (os.getpid(), signal.SIGINT))
        start = time.monotonic()
        timer.start()
        with pytest.raises(KeyboardInterrupt):
            sleep(10.0)
        assert 0.4 < time.monotonic() - start < 9
        with pytest.raises(ConnectionError, match="a request was interrupted before its reply came"):
            sleep(0.0)


def test_interrupted_wait_for_a_tracker(interruptible):
    """The same while no server is free: here a tracker that never answers."""
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def track():
            with listener.accept()[0] as peer:
                peer.sendall(peer.recv(4))
                # The request, and the end of the client.
                while peer.recv(1024):
                    pass

        thread = threading.Thread(target=track)
        thread.start()
        threading.Timer(0.5, os.kill, (os.getpid(), signal.SIGINT)).start()
        start = time.monotonic()
        with pytest.raises(KeyboardInterrupt):
            remote.Tracker(f"127.0.0.1:{listener.getsockname()[1]}").request("pi", timeout=30.0)
        assert time.monotonic() - start < 20
        thread.join()


def test_other_libraries_of_the_process(session):
    """A library without a client reaches the devices of sessions."""
    other = tvm_ffi.load_module(os.environ["CONVERSIONS_LIBRARY"])
    there = other.to_device(tvm_ffi.from_dlpack(np.arange(4, dtype="int32")), session.device("cpu"))
    assert session.get_function("rpc_test.total")(there) == 6
    assert list(np.from_dlpack(other.to_device(there, tvm_ffi.device("cpu", 0)))) == [0, 1, 2, 3]
