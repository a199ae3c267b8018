"""Proxy, server, tracker and clients of Apache TVM for the tests of the proxy: a line when it is ready, and the end with standard input."""

import os
import sys

import numpy as np
import tvm
from tvm import rpc


def main():
    program, *arguments = sys.argv[1:]
    if program == "proxy":
        from tvm.rpc.proxy import Proxy

        tracker_addr = ("127.0.0.1", int(arguments[0])) if arguments else None
        proxy = Proxy(host="127.0.0.1", port=9190 + os.getpid() % 20000, port_end=65000, tracker_addr=tracker_addr)
        print(f"127.0.0.1:{proxy.port}", flush=True)
        sys.stdin.read()
        proxy.terminate()
    elif program == "server":
        port, key = arguments
        server = rpc.Server(host="127.0.0.1", port=int(port), is_proxy=True, key=key, silent=True)
        print("ready", flush=True)
        sys.stdin.read()
        server.terminate()
    elif program == "tracker":
        from tvm.rpc.tracker import Tracker

        tracker = Tracker(host="127.0.0.1", port=9190 + os.getpid() % 20000, port_end=65000, silent=True)
        print(f"127.0.0.1:{tracker.port}", flush=True)
        sys.stdin.read()
        tracker.terminate()
    elif program == "tracker-client":
        port, *wanted = arguments
        tracker = rpc.connect_tracker("127.0.0.1", int(port))
        for key in wanted:
            session = tracker.request(key, session_timeout=60)
            assert session.get_function("testing.echo")("through") == "through"
            del session
        print("done", flush=True)
    elif program == "client":
        port, key = arguments
        # Twice: the server returns to the proxy after the first session.
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
