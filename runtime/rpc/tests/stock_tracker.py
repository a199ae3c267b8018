"""Tracker, server and client of Apache TVM for the tests of the tracker: a line when it is ready, and the end with standard input."""

import sys
import time

import numpy as np
import tvm
from tvm import rpc
from tvm.rpc.tracker import Tracker


def main():
    program, *arguments = sys.argv[1:]
    if program == "tracker":
        tracker = Tracker(host="127.0.0.1", port=9190, port_end=9290, silent=True)
        print(f"127.0.0.1:{tracker.port}", flush=True)
        sys.stdin.read()
        tracker.terminate()
    elif program == "server":
        port, key = arguments
        server = rpc.Server(host="127.0.0.1", port=9091, port_end=9190, key=key, tracker_addr=("127.0.0.1", int(port)), silent=True)
        print(server.port, flush=True)
        sys.stdin.read()
        server.terminate()
    elif program == "client":
        port, key = arguments
        tracker = rpc.connect_tracker("127.0.0.1", int(port))
        assert key in tracker.text_summary(), tracker.text_summary()
        assert f"server:{key}" in [server["key"] for server in tracker.summary()["server_info"]]
        # Twice: the server is free again after the first session.
        for _ in range(2):
            remote = tracker.request(key, priority=1, session_timeout=60)
            array = tvm.runtime.tensor(np.arange(4, dtype="float32"), remote.cpu(0))
            np.testing.assert_equal(array.numpy(), np.arange(4, dtype="float32"))
            del array, remote
            time.sleep(0.1)
        print("done", flush=True)


main()
