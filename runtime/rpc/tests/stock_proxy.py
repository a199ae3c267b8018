"""Proxy, server and client of Apache TVM for the tests of the proxy: a line when it is ready, and the end with standard input."""

import os
import sys

import numpy as np
import tvm
from tvm import rpc


def main():
    program, *arguments = sys.argv[1:]
    if program == "proxy":
        from tvm.rpc.proxy import Proxy

        proxy = Proxy(host="127.0.0.1", port=9190 + os.getpid() % 20000, port_end=65000)
        print(f"127.0.0.1:{proxy.port}", flush=True)
        sys.stdin.read()
        proxy.terminate()
    elif program == "server":
        port, key = arguments
        server = rpc.Server(host="127.0.0.1", port=int(port), is_proxy=True, key=key, silent=True)
        print("ready", flush=True)
        sys.stdin.read()
        server.terminate()
    elif program == "client":
        port, key = arguments
        # Twice: the server comes back to the proxy after the first session.
        for _ in range(2):
            session = rpc.connect("127.0.0.1", int(port), key=key, session_timeout=60)
            assert session.get_function("testing.echo")("through") == "through"
            data = np.arange(200_000, dtype="float32")
            array = tvm.runtime.tensor(data, session.cpu(0))
            np.testing.assert_equal(array.numpy(), data)
            session.upload(bytearray(b"bytes"), "file")
            assert bytes(session.download("file")) == b"bytes"
            del array, session
        print("done", flush=True)


main()
