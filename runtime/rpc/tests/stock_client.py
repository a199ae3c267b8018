"""The RPC client of Apache TVM 0.27 with Kernpack's server: stock_client.py SERVER CONVERSIONS, a server program and libconversions.so.

Each test has a session of its own. Exit status 1 and a traceback when a check fails.
"""

import contextlib
import gc
import os
import signal
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

import numpy as np
import psutil
import tvm
from tvm import rpc

SERVER, CONVERSIONS = sys.argv[1:3]
HERE = Path(__file__).parent
FOLDER = tempfile.TemporaryDirectory(prefix="kernpack-rpc-test-")
HOSTILE = os.path.join(FOLDER.name, "hostile.so")


class Server:
    """Our server on a free port, with an empty folder for its sessions."""

    def __init__(self, *options):
        self.folder = tempfile.mkdtemp(dir=FOLDER.name)
        token = [] if "--token-file" in options else ["--no-token"]
        command = [SERVER, "--port", "0", "--folder", self.folder, *token, *options]
        self.process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        line = self.process.stdout.readline()
        assert line.startswith("listening on 127.0.0.1:"), line
        self.port = int(line.rsplit(":", 1)[1])

    def connect(self, key="", **options):
        return rpc.connect("127.0.0.1", self.port, key, **options)

    @contextlib.contextmanager
    def session(self, key=""):
        """A session, which ends when the last object of it is gone."""
        yield self.connect(key)

    def wait_until_clean(self, seconds=30):
        """No process and no file of a session is left."""
        deadline = time.time() + seconds
        while time.time() < deadline:
            left = psutil.Process(self.process.pid).children(recursive=True), os.listdir(self.folder)
            if left == ([], []):
                return
            time.sleep(0.02)
        raise AssertionError(f"left: {left}")

    def __enter__(self):
        return self

    def __exit__(self, kind, *_):
        ended = self.process.poll() is not None
        self.process.terminate()
        self.process.wait()
        if kind is None:
            assert not ended, "the server has ended"
            self.wait_until_empty()

    def wait_until_empty(self):
        """The folders of sessions are removed, also when the server has ended."""
        deadline = time.time() + 30
        while os.listdir(self.folder):
            assert time.time() < deadline, os.listdir(self.folder)
            time.sleep(0.02)


def fails(part, call, *arguments, kind=tvm.error.RPCError):
    """Calls, and expects an error whose text has this part."""
    start = time.time()
    try:
        call(*arguments)
    except kind as error:
        assert part in str(error), str(error)
    else:
        raise AssertionError(f"no {kind.__name__}")
    return time.time() - start


def uploaded(session, path=None):
    path = path or CONVERSIONS
    session.upload(path)
    return session.load_module(os.path.basename(path))


def files(server):
    with server.session() as session:
        session.upload(bytearray(b"hello"), "hello.txt")
        assert session.download("hello.txt") == b"hello"
        big = os.urandom(5_000_001)
        session.upload(bytearray(big), "folder/big.bin")
        assert session.download("folder/big.bin") == big
        assert session.listdir("") == "folder,hello.txt", session.listdir("")
        session.remove("folder/big.bin")
        session.remove("folder")
        assert session.listdir("/") == "hello.txt"
        path = session.get_function("tvm.rpc.server.workpath")("hello.txt")
        assert path.startswith(server.folder) and path.endswith("/hello.txt"), path
        fails("cannot read 'nothing'", session.download, "nothing")
        fails("cannot remove 'nothing'", session.remove, "nothing")
        fails("relative path", session.download, "../../etc/passwd")
        fails("relative path", session.upload, bytearray(b"x"), "/tmp/x")
        fails("no file 'a.so'", session.load_module, "a.so")
        # A file that is not a library.
        fails("`.txt` files", session.load_module, "hello.txt")
        assert session.download("hello.txt") == b"hello"


def values(server):
    with server.session() as session:
        echo = session.get_function("testing.echo")
        for value in [None, 0, -5, 2**63 - 1, -(2**63), True, False, 0.5, float("inf"), "", "seven77", "eight888", "grün" * 100]:
            got = echo(value)
            assert got == value and (value is None or isinstance(got, type(value))), (value, got)
        for value in [b"", b"\0\1\xff", os.urandom(100), os.urandom(100_000)]:
            assert bytes(echo(bytearray(value))) == value
        assert echo(tvm.runtime.convert(3)) == 3
        assert str(echo(tvm.DataType("float16x4"))) == "float16x4"
        device = session.cpu(0)
        assert session.get_function("testing.nop")() is None
        fails("testing.echo(value): expected 1 arguments, got 0", echo)
        fails("expected 1 arguments, got 2", echo, 1, 2)
        assert device.exist


def arrays(server):
    with server.session() as session:
        device = session.cpu(0)
        echo = session.get_function("testing.echo")
        dtypes = "int8 int16 int32 int64 uint8 uint16 uint32 uint64 float16 float32 float64 bool".split()
        for dtype in dtypes:
            for shape in [(), (1,), (3, 5), (2, 0, 4), (2, 3, 4, 5)]:
                data = np.random.default_rng(7).integers(0, 2 if dtype == "bool" else 100, shape).astype(dtype)
                there = tvm.runtime.tensor(data, device)
                np.testing.assert_array_equal(there.numpy(), data)
                back = echo(there)
                np.testing.assert_array_equal(back.numpy(), data)
                assert back.dtype == dtype and tuple(back.shape) == shape
        other = tvm.runtime.empty((3, 4), "float32", device)
        data = np.arange(12, dtype="float32").reshape(3, 4)
        there = tvm.runtime.tensor(data, device)
        there.copyto(other)
        np.testing.assert_array_equal(other.numpy(), data)
        big = np.random.default_rng(1).integers(0, 255, 8 << 20).astype("uint8")
        np.testing.assert_array_equal(tvm.runtime.tensor(big, device).numpy(), big)
        fails("cpu:7", lambda: tvm.runtime.tensor(data, session.cpu(7)))
        assert not session.device("cuda").exist


def libraries(server):
    with server.session() as session:
        library = uploaded(session)
        assert library["add"](40, 2) == 42
        device = session.cpu(0)
        array = tvm.runtime.tensor(np.array([1, 2, 3], "int32"), device)
        library["increase_i32"](array, 5)
        assert array.numpy().tolist() == [6, 7, 8]
        assert library["sum_f32"](tvm.runtime.tensor(np.array([1, 2, 4], "float32"), device)) == 7.0
        # The message of a typed function.
        fails("add(a: int, b: int): argument 'a': expected int, got str", library["add"], "x", 2)
        fails("expected 2 arguments, got 1", library["add"], 1)
        # Objects and closures stay on the server; handles are returned.
        point = library["point"](3, 4)
        coordinates = library["coordinates"](point)
        size = session.get_function("ffi.ArraySize")
        assert size(coordinates) == 2
        item = session.get_function("ffi.ArrayGetItem")
        assert (item(coordinates, 0), item(coordinates, 1)) == (3, 4)
        closure = session.get_function("ffi.ModuleGetFunction")(library, "add", False)
        assert closure(1, 2) == 3
        # An unknown name.
        try:
            library["none"]
        except AttributeError as error:
            assert "none" in str(error)
        else:
            raise AssertionError("no error")
        hostile = uploaded(session, HOSTILE)
        library.import_module(hostile)
        assert library.get_function("fill", query_imports=True)() > 0
        fails("a pointer, which has no meaning", hostile["pointer"])
        assert session.system_lib() is not None


def time_evaluator(server):
    with server.session() as session:
        library = uploaded(session)
        evaluate = library.time_evaluator("add", session.cpu(0), number=10, repeat=4)
        result = evaluate(1, 2)
        assert len(result.results) == 4 and all(0 < seconds < 0.1 for seconds in result.results), result
        assert result.min <= result.median <= result.max and result.std >= 0
        longer = library.time_evaluator("add", session.cpu(0), number=1, repeat=2, min_repeat_ms=20, cooldown_interval_ms=10, repeats_to_cooldown=1)
        start = time.time()
        assert longer(1, 2).mean < 0.001
        assert time.time() - start >= 0.06
        flushed = library.time_evaluator("add", session.cpu(0), number=2, cache_flush_bytes=1 << 20)
        flushed(1, 2)
        fails("add(a: int, b: int)", evaluate, "x", 1)
        fails("no function 'none'", lambda: library.time_evaluator("none", session.cpu(0))())


def handles(server):
    session = server.connect()
    for name in ["download", "upload", "remove", "load_module", "workpath", "ModuleGetFunction", "ImportModule"]:
        function = session.get_function(f"tvm.rpc.server.{name}")
        fails(f"tvm.rpc.server.{name}(", function)
        fails(f"tvm.rpc.server.{name}(", function, 1, 2, 3, 4, 5)
    fails("expected", session.get_function("runtime.RPCTimeEvaluator"))
    # Thousands of handles are created and freed.
    echo = session.get_function("testing.echo")
    device = session.cpu(0)
    for _ in range(1000):
        assert session.get_function("testing.nop")() is None
        tvm.runtime.empty((4,), "int8", device)
    del session, echo


def keys(server):
    with Server("--key", "pi") as keyed:
        with keyed.session("pi") as session:
            assert session.get_function("testing.echo")(1) == 1
        for key in ["", "pie", "client:pi"]:
            try:
                keyed.connect(key)
            except Exception as error:
                assert "key" in str(error), error
            else:
                raise AssertionError(key)
    token = os.path.join(FOLDER.name, "token")
    Path(token).write_text("c2VjcmV0IHRva2Vu\n")
    with Server("--key", "pi", "--token-file", token) as guarded:
        with guarded.session("pi -token=c2VjcmV0IHRva2Vu") as session:
            assert session.get_function("testing.echo")(1) == 1
        for key in ["pi", "pi -token=c2VjcmV0IHRva2V", "pi -token="]:
            try:
                guarded.connect(key)
            except Exception:
                continue
            raise AssertionError(key)
    refused = subprocess.run([SERVER, "--host", "0.0.0.0", "--port", "0"], capture_output=True, text=True, timeout=20)
    assert refused.returncode == 1 and "--insecure" in refused.stderr, refused


def crashes(server):
    with server.session() as other:
        echo = other.get_function("testing.echo")
        for name, part in [
            ("segfault", "SIGSEGV"),
            ("give_up", "SIGABRT"),
            ("leave", "exited with code 3"),
            ("recursion", "stack ran out"),
            ("forks", "too many processes"),
        ]:
            session = server.connect()
            took = fails(part, uploaded(session, HOSTILE)[name])
            assert took < 10, took
            # Other sessions continue, and this one has ended.
            assert echo(name) == name
            fails("", session.get_function, "testing.echo", kind=Exception)
            del session
        with server.session() as session:
            uploaded(session, HOSTILE)["orphan"]()
        with Server("--memory", "300MiB", "--upload", "20MiB") as small:
            with small.session() as session:
                hostile = uploaded(session, HOSTILE)
                assert 50 < hostile["eat"]() < 300
            with small.session() as session:
                hostile = uploaded(session, HOSTILE)
                assert hostile["fill"]() == 20
                fails("no 1073741824 bytes left", lambda: tvm.runtime.empty((1 << 30,), "int8", session.cpu(0)))
                fails("may upload 20971520 bytes", session.upload, bytearray(21 << 20), "x")
                assert session.get_function("testing.echo")(1) == 1
        assert echo(1) == 1


def timeouts(server):
    session = server.connect(session_timeout=5)
    fails("has lasted 5 s", uploaded(session, HOSTILE)["endless"], kind=tvm.error.RPCSessionTimeoutError)
    del session
    with Server("--call-time", "3", "--idle-time", "3") as quick:
        session = quick.connect()
        fails("`endless` took longer", uploaded(session, HOSTILE)["endless"], kind=tvm.error.RPCSessionTimeoutError)
        del session
        session = quick.connect()
        time.sleep(4.5)
        fails("no request", session.get_function, "testing.echo", kind=Exception)
        del session


def stops(server):
    stopped = Server()
    session = stopped.connect()
    hostile = uploaded(session, HOSTILE)
    threading.Timer(0.5, lambda: stopped.process.send_signal(signal.SIGKILL)).start()
    took = fails("", hostile["endless"], kind=Exception)
    assert took < 20, took
    stopped.process.wait()
    stopped.wait_until_empty()


def many(server):
    def work(number, failures):
        try:
            with server.session() as session:
                echo = session.get_function("testing.echo")
                device = session.cpu(0)
                for i in range(20):
                    assert echo(number * 100 + i) == number * 100 + i
                data = np.full(100_000, number, "int32")
                np.testing.assert_array_equal(tvm.runtime.tensor(data, device).numpy(), data)
        except BaseException as error:
            failures.append(error)

    failures = []
    threads = [threading.Thread(target=work, args=(number, failures)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failures, failures
    with Server("--sessions", "1") as single:
        with single.session() as session:
            assert session.get_function("testing.echo")(1) == 1
            fails("has 1 sessions, its limit", single.connect, kind=Exception)


def hops(server):
    with Server("--key", "inner") as inner:
        constructor = ["rpc.Connect", "127.0.0.1", inner.port, "inner", False]
        session = server.connect(session_constructor_args=constructor)
        library = uploaded(session)
        assert library["add"](40, 2) == 42
        data = np.arange(100_000, dtype="int64")
        np.testing.assert_array_equal(tvm.runtime.tensor(data, session.cpu(0)).numpy(), data)
        assert inner.folder in session.get_function("tvm.rpc.server.workpath")("x")
        fails("cannot connect", lambda: server.connect(session_constructor_args=["rpc.Connect", "127.0.0.1", 1, "", False]), kind=Exception)
        fails("no 'rpc.Other'", lambda: server.connect(session_constructor_args=["rpc.Other"]), kind=Exception)


def main():
    subprocess.run(["cc", "-O1", "-shared", "-fPIC", "-o", HOSTILE, str(HERE / "hostile.c")], check=True)
    tests = [files, values, arrays, libraries, time_evaluator, handles, keys, crashes, timeouts, stops, many, hops]
    wanted = sys.argv[3:]
    with Server() as server:
        for test in tests:
            if wanted and test.__name__ not in wanted:
                continue
            start = time.time()
            test(server)
            gc.collect()
            server.wait_until_clean()
            print(f"{test.__name__}: ok ({time.time() - start:.1f} s)", flush=True)


main()
FOLDER.cleanup()
