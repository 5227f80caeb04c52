"""bench/slow-readers: clients that read long answers very slowly, beside others.

Point queries from one address are measured alone, then beside readers of another address, each of which
asks for a long answer, takes a few bytes now and then, and asks again when it loses its answer. Both are
measured by turns, as the machine may have other work.
"""

import argparse
import json
import shutil
import socket
import statistics
import threading
import time

from . import command, data, engines, points, processes
from .overload import load

KEPT_MIN = 0.9
# A long answer of any store.
VALUES = " ".join(str(number) for number in range(120))
LONG = f"SELECT * {{ VALUES ?a {{ {VALUES} }} VALUES ?b {{ {VALUES} }} VALUES ?c {{ {VALUES} }} }}"
READER = "127.0.0.2"


def arguments(given):
    """Reads the command line."""
    parser = argparse.ArgumentParser(
        prog="bench/slow-readers", description="Has clients read long answers very slowly, and checks that "
        "others keep their throughput.")
    parser.add_argument("--data", default="bsbm-1m", metavar="NAME|FILE",
                        help="bsbm-1m, bsbm-10m or a file of BSBM (default: %(default)s)")
    parser.add_argument("--readers", type=int, default=60, metavar="N", help="slow readers (default: %(default)s)")
    parser.add_argument("--bytes", type=int, default=512, metavar="N", help="that each takes at once (default: %(default)s)")
    parser.add_argument("--every", type=float, default=5, metavar="S", help="seconds between (default: %(default)s)")
    parser.add_argument("--seconds", type=float, default=30, metavar="S", help="of each turn (default: %(default)s)")
    parser.add_argument("--turns", type=int, default=3, metavar="N", help="with and without readers (default: %(default)s)")
    parser.add_argument("--connections", type=int, default=8, metavar="N", help="of the others (default: %(default)s)")
    parser.add_argument("--json", metavar="FILE", help="where all figures go (default: bench/results)")
    return parser.parse_args(given)


def main(given=None):
    """Gives the exit code: 0 if others kept their throughput."""
    chosen = arguments(given)
    return command.guarded(measure, chosen)


def measure(chosen):
    """Measures by turns, and checks."""
    name, path = data.bsbm(chosen.data, engines.program)
    machine = command.describe_machine()
    work = data.CACHE / "work" / f"slow-readers-{name}"
    shutil.rmtree(work, ignore_errors=True)
    work.mkdir(parents=True)
    requests = work / "requests.jsonl"
    products = data.sample_instances(path, places=200, seed=1)["Product"]
    templates = list(points.TEMPLATES.items())
    lines = [{"template": kind, "query": text(product)} for product in products for kind, text in templates]
    requests.write_text("".join(json.dumps(line) + "\n" for line in lines), encoding="utf-8")
    print(f"{name}: {machine['cores']} cores, load average {machine['load_average']:.1f} before", flush=True)
    alone, beside, statuses = [], [], {}
    try:
        child, port = serve(path, work)
        url = f"http://127.0.0.1:{port}"
        load(url, requests, work, chosen.connections, 5)
        for turn in range(chosen.turns):
            alone.append(load(url, requests, work, chosen.connections, chosen.seconds))
            readers = Readers(port, chosen)
            readers.wait_until_begun()
            beside.append(load(url, requests, work, chosen.connections, chosen.seconds))
            readers.stop()
            for status, count in beside[-1]["statuses"].items():
                statuses[status] = statuses.get(status, 0) + count
            print(f"  turn {turn + 1}: {alone[-1]['per_second']:,.0f}/s alone, {beside[-1]['per_second']:,.0f}/s beside "
                  f"{chosen.readers} slow readers, who lost {readers.lost} answers", flush=True)
            child.check()
        child.stop()
    finally:
        shutil.rmtree(work, ignore_errors=True)
    kept = statistics.median(with_["per_second"] / without["per_second"] for without, with_ in zip(alone, beside))
    wrong = {status: count for status, count in statuses.items() if not status.startswith("2")}
    checks = [
        (kept >= KEPT_MIN, f"others keep {100 * kept:.0f} % of their throughput (at least {100 * KEPT_MIN:.0f} %)"),
        (not wrong, f"all of their requests are answered (others: {wrong or 'none'})"),
    ]
    for holds, text in checks:
        print(f"  {'ok' if holds else 'FAILED'}: {text}")
    record = {
        **command.occasion(machine),
        "version": processes.output([engines.program(), "--version"]),
        "data": name,
        "settings": {key: value for key, value in vars(chosen).items() if key != "json"},
        "alone": alone, "beside": beside, "kept": kept,
        "checks": [{"holds": holds, "text": text} for holds, text in checks],
    }
    print(f"all figures: {command.write_record(record, f'slow-readers-{name}', chosen.json)}")
    return 0 if all(holds for holds, _ in checks) else 1


def serve(path, work):
    """Loads a store, and serves it."""
    store, log, port = work / "store", work / "log.txt", processes.free_port()
    processes.run([engines.program(), "load", "-l", store, "--quiet", path], log)
    child = processes.Child([engines.program(), "serve", "-l", store, "--bind", f"127.0.0.1:{port}"], log)
    endpoint = engines.Endpoint(port, "/query", 10)
    endpoint.wait(child, engines.READY_SECONDS)
    endpoint.close()
    return child, port


class Readers:
    """Slow readers, each on a thread of its own, from an address of their own."""

    def __init__(self, port, chosen):
        self.lost = 0
        self._port = port
        self._chosen = chosen
        self._stopping = threading.Event()
        self._begun = threading.Semaphore(0)
        self._threads = [threading.Thread(target=self._read, daemon=True) for _ in range(chosen.readers)]
        for thread in self._threads:
            thread.start()

    def wait_until_begun(self):
        """Waits until each has the beginning of an answer, or has lost one."""
        deadline = time.monotonic() + 120
        for _ in self._threads:
            if not self._begun.acquire(timeout=max(0, deadline - time.monotonic())):
                raise processes.Failed("some of the slow readers have no answer after 120 s")

    def stop(self):
        """Ends them."""
        self._stopping.set()
        for thread in self._threads:
            thread.join()

    def _read(self):
        request = (f"POST /query HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/sparql-query\r\n"
                   f"Accept: application/sparql-results+json\r\nContent-Length: {len(LONG)}\r\n\r\n{LONG}").encode()
        while not self._stopping.is_set():
            try:
                with socket.socket() as connection:
                    # As little as the system allows, so that the answer waits in the server.
                    connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
                    connection.settimeout(60)
                    connection.bind((READER, 0))
                    connection.connect(("127.0.0.1", self._port))
                    connection.sendall(request)
                    while connection.recv(self._chosen.bytes):
                        self._begun.release()
                        if self._stopping.wait(self._chosen.every):
                            return
            except OSError:
                pass
            self.lost += 1
            self._begun.release()
            self._stopping.wait(0.1)
