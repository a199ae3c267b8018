"""The same bytes from memory to memory through a connection of OpenSSL (Python's module `ssl`), for `cargo xtask bench rpc`: `openssl.py FOLDER` with cert.pem and
key.pem, prints lines `name<TAB>nanoseconds`. Sender and receiver are processes of their own."""

import os
import socket
import ssl
import statistics
import sys
import time

SIZES = [1 << 20, 16 << 20, 64 << 20]


def rounds(size):
    return (256 << 20) // max(size, 16 << 20)


def receive(connection, buffer):
    view, have = memoryview(buffer), 0
    while have < len(buffer):
        count = connection.recv_into(view[have:])
        assert count, "the peer is gone"
        have += count


def serve(listener, folder):
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_3
    context.load_cert_chain(os.path.join(folder, "cert.pem"), os.path.join(folder, "key.pem"))
    connection = context.wrap_socket(listener.accept()[0], server_side=True)
    for size in SIZES:
        buffer = bytearray(size)
        for _ in range(rounds(size) + 1):
            receive(connection, buffer)
            connection.sendall(b"1")


def main():
    listener = socket.create_server(("127.0.0.1", 0))
    child = os.fork()
    if child == 0:
        serve(listener, sys.argv[1])
        os._exit(0)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    plain = socket.create_connection(listener.getsockname())
    plain.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    connection = context.wrap_socket(plain)
    for size in SIZES:
        data = bytes(size)
        times = []
        for _ in range(rounds(size) + 1):
            start = time.perf_counter_ns()
            connection.sendall(data)
            assert connection.recv(1) == b"1"
            times.append(time.perf_counter_ns() - start)
        # The first round allocates memory.
        median = statistics.median(times[1:])
        print(f"to {size >> 20}\t{median}\nfrom {size >> 20}\t{median}")
    os.waitpid(child, 0)


main()
