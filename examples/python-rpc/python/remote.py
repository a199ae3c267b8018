"""Sessions with RPC servers in Python, without Apache TVM: the packed functions `kernpack.rpc.*` of a library as classes with types.

PYTHON_RPC_LIBRARY names the library; any library that contains the crate `kernpack-rpc` serves.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any, Optional

import tvm_ffi

_path = os.environ.get("PYTHON_RPC_LIBRARY")
if not _path:
    raise ImportError("set PYTHON_RPC_LIBRARY to the path of libpython_rpc.so")
library = tvm_ffi.load_module(_path)


for _error in (ConnectionError, MemoryError, OSError, TimeoutError):
    tvm_ffi.register_error(_error.__name__, _error)


@tvm_ffi.register_error("RPCError")
class RPCError(RuntimeError):
    """What a server of Apache TVM reports, which does not say of what kind the error was."""


@tvm_ffi.register_error("RPCSessionTimeoutError")
class RPCSessionTimeoutError(RPCError):
    """The time of the session is over."""


def _function(name: str) -> tvm_ffi.Function:
    return tvm_ffi.get_global_func(f"kernpack.rpc.{name}")


_CPU = tvm_ffi.device("cpu", 0)


@tvm_ffi.register_object("kernpack.rpc.RemoteObject")
class RemoteObject(tvm_ffi.Object):
    """An object of a server: it can be given to functions of the same session, and what is in it stays there."""

    remote_type_index: int


@tvm_ffi.register_object("kernpack.rpc.Timing")
class Timing(tvm_ffi.Object):
    """What a time evaluator has measured, in seconds for one call."""

    results: Sequence[float]
    mean: float
    median: float
    min: float
    max: float
    std: float

    def __str__(self) -> str:
        return _function("describe")(self)


@tvm_ffi.register_object("kernpack.rpc.Session")
class Session(tvm_ffi.Object):
    """A session with a server: `connect` makes one. It ends when nothing refers to it any more, or with its `with` block."""

    peer: str
    server_key: str

    def __enter__(self) -> Session:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Ends the session; what is asked of it from now on is an error."""
        _function("close")(self)

    def upload(self, path: str | os.PathLike[str]) -> None:
        """Sends a file to the session's folder, under its own name."""
        _function("upload")(self, os.fspath(path))

    def upload_as(self, name: str, content: bytes) -> None:
        """Writes a file of this name and content to the session's folder."""
        _function("upload_as")(self, name, content)

    def download(self, name: str) -> bytes:
        """The content of a file of the session's folder."""
        return bytes(_function("download")(self, name))

    def listdir(self, path: str = ".") -> list[str]:
        """Names of what is in a folder of the session's folder."""
        return [str(name) for name in _function("listdir")(self, path)]

    def remove(self, name: str) -> None:
        """Removes a file of the session's folder."""
        _function("remove")(self, name)

    def load_module(self, name: str) -> tvm_ffi.Module:
        """Loads a library of the session's folder."""
        return _function("load_module")(self, name)

    def system_lib(self) -> tvm_ffi.Module:
        """The functions that are linked into the server itself."""
        return _function("system_lib")(self)

    def get_function(self, name: str) -> Optional[tvm_ffi.Function]:
        """A global function of the server; None when it has none of this name."""
        return _function("global_function")(self, name)

    def device(self, name: str) -> tvm_ffi.Device:
        """A device of the server, such as `cpu:0`."""
        return _function("device")(self, name)

    def empty(self, shape: Sequence[int], dtype: str = "float32", device: str = "cpu:0") -> tvm_ffi.Tensor:
        """A tensor in the server's memory; its content is undefined."""
        return _function("empty")(tvm_ffi.Shape(tuple(shape)), tvm_ffi.dtype(dtype), self.device(device))

    def send(self, array: Any, device: str = "cpu:0") -> tvm_ffi.Tensor:
        """A copy of an array (NumPy, PyTorch, anything of DLPack) in the server's memory."""
        tensor = array if isinstance(array, tvm_ffi.Tensor) else tvm_ffi.from_dlpack(array)
        return _function("copy")(tensor, self.device(device))

    def time_evaluator(
        self,
        module: Optional[tvm_ffi.Module],
        function: str,
        device: str = "cpu:0",
        *,
        number: int = 10,
        repeat: int = 1,
        min_repeat_ms: int = 0,
        cooldown_ms: int = 0,
        repeats_to_cooldown: int = 1,
        cache_flush_bytes: int = 0,
        preparation: str = "",
    ) -> tvm_ffi.Function:
        """A function that takes the arguments of the one it measures on the server, and returns a Timing."""
        return _function("time_evaluator")(
            self,
            module,
            function,
            self.device(device),
            number,
            repeat,
            min_repeat_ms,
            cooldown_ms,
            repeats_to_cooldown,
            cache_flush_bytes,
            preparation,
        )


def connect(
    address: str,
    key: Optional[str] = None,
    *,
    token: Optional[str] = None,
    timeout: Optional[float] = None,
    session_timeout: Optional[float] = None,
    hops: Sequence[tuple[str, str]] = (),
    fingerprint: Optional[str] = None,
    connect_timeout: Optional[float] = None,
    through_proxy: bool = False,
) -> Session:
    """A session with the RPC server at `host:port`. Times are in seconds: `timeout` for a call (600), `session_timeout` for the session in
    all (no limit), `connect_timeout` until the server answers at first (10). `hops` are further servers, each an address and a key; with the
    `fingerprint` of the server's certificate, which `cargo kernpack rpc keygen` prints, the session is over TLS. With `through_proxy` there is a proxy at the
    address, and the server is behind it: only then a `token` is proved there."""
    further = [list(hop) for hop in hops]
    return _function("connect")(
        address, key, token, timeout, session_timeout, further, fingerprint, connect_timeout, through_proxy
    )


class Tracker:
    """A tracker, which gives servers to clients by key."""

    def __init__(self, address: str, *, token: Optional[str] = None, fingerprint: Optional[str] = None) -> None:
        self.address, self._token, self._fingerprint = address, token, fingerprint

    def request(self, key: str, *, priority: int = 0, timeout: float = 600.0, **options: Any) -> Session:
        """A session with a server of this key, which is waited for at most `timeout` seconds; `options` are those of `connect`."""
        found = _function("tracker.request")(self.address, key, priority, timeout, self._token, self._fingerprint)
        return connect(str(found[0]), str(found[1]), **options)

    def __str__(self) -> str:
        return _function("tracker.summary")(self.address, self._token, self._fingerprint)


def receive(tensor: tvm_ffi.Tensor) -> tvm_ffi.Tensor:
    """A copy of a server's tensor in this process, for `numpy.from_dlpack` and its kin."""
    return _function("copy")(tensor, _CPU)
