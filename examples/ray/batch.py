"""Edges of all pictures of a folder, on a Ray cluster: each worker is an actor that holds the library.

    python batch.py PICTURES EDGES --address HOST:PORT --workers N

A worker that dies is started again, and the picture that it had is given out again. A picture that is there already is not made again, so a job that was
interrupted is continued by the same command.
"""

import argparse
import os
import time
from pathlib import Path

import ray
from ray.util import ActorPool


# Workers that die are restarted, and their tasks are repeated as often as needed: a picture may be processed twice.
@ray.remote(num_cpus=1, max_restarts=-1, max_task_retries=-1)
class Worker:
    def __init__(self):
        # Loaded once, in the worker's own process; the wheel is installed on each node.
        import batchkit

        self.edges = batchkit.edges

    def process_id(self):
        return os.getpid()

    def work(self, source, target):
        import numpy as np
        from PIL import Image

        start = time.perf_counter()
        picture = np.array(Image.open(source).convert("RGB"))
        edges = np.empty(picture.shape[:2], np.uint8)
        self.edges(picture, edges)
        # Whole, or not there: a worker may die at any time.
        part = target.with_name(f".{target.name}.{os.getpid()}")
        Image.fromarray(edges).save(part, format="PNG")
        part.rename(target)
        return source.name, os.getpid(), time.perf_counter() - start


def main():
    parser = argparse.ArgumentParser(description="Edges of all pictures of a folder, on a Ray cluster.")
    parser.add_argument("pictures", type=Path)
    parser.add_argument("edges", type=Path)
    parser.add_argument("--address", required=True, help="the cluster's head: HOST:PORT")
    parser.add_argument("--workers", type=int, default=4)
    options = parser.parse_args()
    options.edges.mkdir(parents=True, exist_ok=True)
    todo = [(path, options.edges / path.name) for path in sorted(options.pictures.glob("*.png"))]
    todo = [(source, target) for source, target in todo if not target.exists()]
    ray.init(address=options.address, log_to_driver=False)
    # Spread: some workers on each node.
    workers = [Worker.options(scheduling_strategy="SPREAD").remote() for _ in range(options.workers)]
    print("workers", *ray.get([worker.process_id.remote() for worker in workers]), flush=True)
    pool = ActorPool(workers)
    for name, worker, seconds in pool.map_unordered(lambda worker, job: worker.work.remote(*job), todo):
        print(f"{name} by {worker} in {seconds * 1e3:.0f} ms", flush=True)
    print(f"{len(todo)} pictures done", flush=True)


main()
