"""Starts a Ray cluster of two nodes on this machine, runs the batch job on it, kills one of its workers in the middle, and checks that each picture is there and
right. `cargo xtask ray` installs what this needs, and runs it."""

import os
import random
import re
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import batchkit
import numpy as np
from PIL import Image

PICTURES = 60
HERE = Path(__file__).parent
# The programs of the current environment; few resources, for small machines, and no telemetry.
RAY = str(Path(sys.executable).with_name("ray"))
NODE = ["--num-cpus=2", "--object-store-memory=80000000", "--disable-usage-stats"]
ENVIRONMENT = {**os.environ, "RAY_USAGE_STATS_ENABLED": "0", "PYTHONDONTWRITEBYTECODE": "1"}


def ray(*words):
    done = subprocess.run([RAY, *words], env=ENVIRONMENT, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=180)
    assert done.returncode == 0, done.stdout
    return done.stdout


def main():
    random.seed(1)
    start = time.monotonic()
    # A port of our own: another cluster of this machine is left alone, until `ray stop`, which is for all nodes.
    port = random.randrange(20000, 30000)
    address = f"127.0.0.1:{port}"
    with tempfile.TemporaryDirectory(prefix="kernpack-ray-") as folder:
        pictures, edges = Path(folder, "pictures"), Path(folder, "edges")
        pictures.mkdir()
        noise = np.random.default_rng(1)
        for number in range(PICTURES):
            picture = noise.integers(0, 256, (64, 96, 3), np.uint8).repeat(8, 0).repeat(8, 1)
            Image.fromarray(picture).save(pictures / f"{number:03}.png")
        try:
            ray("start", "--head", "--node-ip-address=127.0.0.1", f"--port={port}", "--include-dashboard=false", f"--temp-dir={folder}/ray", *NODE)
            ray("start", f"--address={address}", "--node-ip-address=127.0.0.1", *NODE)
            print(f"two nodes after {time.monotonic() - start:.0f} s", flush=True)
            job = subprocess.Popen([sys.executable, HERE / "batch.py", pictures, edges, "--address", address], env=ENVIRONMENT, stdout=subprocess.PIPE, text=True)
            workers, killed, done, by = [], None, 0, set()
            for line in job.stdout:
                # Ray prints its own lines between those of the job.
                if line.startswith("workers "):
                    workers = [int(word) for word in line.split()[1:]]
                elif made := re.match(r"\d+\.png by (\d+) in ", line):
                    done += 1
                    by.add(int(made[1]))
                    if done == PICTURES // 3:
                        killed = workers[0]
                        os.kill(killed, signal.SIGKILL)
                        print(f"worker {killed} killed after {done} pictures", flush=True)
            assert job.wait() == 0
        finally:
            subprocess.run([RAY, "stop", "--force"], env=ENVIRONMENT, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, timeout=180)
        assert killed and done == PICTURES and len(workers) == 4, (killed, done, workers)
        restarted = by - set(workers)
        for path in sorted(pictures.iterdir()):
            picture = np.array(Image.open(path))
            expected = np.empty(picture.shape[:2], np.uint8)
            batchkit.edges(picture, expected)
            np.testing.assert_array_equal(np.asarray(Image.open(edges / path.name)), expected)
        assert len(list(edges.iterdir())) == PICTURES, sorted(edges.iterdir())
        print(f"{PICTURES} pictures by {len(by)} workers, {len(restarted)} of them started again, all right, after {time.monotonic() - start:.0f} s")


main()
