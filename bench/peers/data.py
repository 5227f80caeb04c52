"""Which triples are loaded and which queries are asked."""

import gzip
import json
import os
import random
import re
import shutil
import subprocess
from pathlib import Path

from . import processes

REPOSITORY = Path(__file__).resolve().parents[2]
CACHE = Path(os.environ.get("XDG_CACHE_HOME", Path.home() / ".cache")) / "pythia" / "peers"
BSBM_100M_PRODUCTS = 284800
BSBM_10M_PRODUCTS = 28480
BSBM_1M_PRODUCTS = 2848
# 26 GB of text: kept compressed, in parts of about 1 GB of text each, that engines read in parallel.
BSBM_100M_PARTS = 26

QUERIES = REPOSITORY / "bench" / "queries"

_INSTANCE = re.compile(
    r"<http://www4\.wiwiss\.fu-berlin\.de/bizer/bsbm/v01/instances/"
    r"dataFrom(?:Producer|Vendor|RatingSite)\d+/(Product|Producer|Vendor|Offer|Review|Reviewer)\d+>")


class Missing(Exception):
    """Data or queries that cannot be found; says where they were looked for."""


def files(path):
    """The files of a data set: the parts in its folder, or the one file that it is."""
    return sorted(path.glob("*.nt.gz")) if path.is_dir() else [path]


def size(path):
    """Bytes of the files of a data set."""
    return sum(file.stat().st_size for file in files(path))


def warm(path):
    """Reads the files of a data set once, so that every engine finds them in the system's cache."""
    for name in files(path):
        with open(name, "rb", buffering=0) as file:
            while file.read(1 << 22):
                pass


def shared_data():
    """The folder of shared data sets, or None."""
    given = os.environ.get("PYTHIA_SHARED_DATA")
    for folder in [Path(given)] if given else [REPOSITORY.parent / "shared" / "data"]:
        if folder.is_dir():
            return folder
    return None


def plain_file(choice):
    """The plain file of `yago` or of a path, or the path of a folder of parts. Without shared data, yago is the slice of this
    repository."""
    if choice == "yago":
        shared = shared_data()
        whole = shared / "yago.nt.zst" if shared else None
        path = whole if whole and whole.exists() else REPOSITORY / "testdata" / "yago" / "yago-slice.nt.zst"
    else:
        path = Path(choice)
        if not path.is_absolute() and not path.exists():
            path = REPOSITORY / choice
    if not path.exists():
        raise Missing(f"no data at {path}")
    return plain(path)


def bsbm(choice, pythia):
    """Name and plain file of BSBM data: bsbm-1m, bsbm-10m or a file; of bsbm-100m the folder of its parts. Made if it is not
    there."""
    if choice == "bsbm-100m":
        return choice, generated_parts(pythia, choice, BSBM_100M_PRODUCTS, BSBM_100M_PARTS)
    if choice == "bsbm-10m":
        return choice, generated_bsbm(pythia)
    shared = shared_data()
    if choice != "bsbm-1m":
        path = Path(choice)
    elif shared:
        path = shared / "bsbm-1m.nt.zst"
    else:
        return choice, generated_bsbm(pythia, choice, BSBM_1M_PRODUCTS)
    if not path.exists():
        raise Missing(f"no data at {path}")
    return path.name.split(".nt")[0], plain(path)


def read_queries(path, each=False):
    """One JSON object a line: id, template, query. With `each`, every query is a template of its own."""
    queries = []
    for line in Path(path).read_text(encoding="utf-8").splitlines():
        if line.strip():
            query = json.loads(line)
            if each:
                query["template"] = query["id"]
            query.setdefault("template", query["id"])
            queries.append(query)
    if not queries:
        raise Missing(f"{path} has no queries")
    return queries


def plain(path):
    """The file without compression, kept in the cache: not every engine reads .zst."""
    if path.suffix not in (".zst", ".gz", ".bz2"):
        return path
    target = CACHE / "data" / path.stem
    if target.exists() and target.stat().st_mtime >= path.stat().st_mtime:
        return target
    target.parent.mkdir(parents=True, exist_ok=True)
    tool = {".zst": "zstd", ".gz": "gzip", ".bz2": "bzip2"}[path.suffix]
    ensure_tool(tool, tool)
    part = target.with_suffix(".part")
    with open(part, "wb") as out:
        subprocess.run([tool, "-dc", str(path)], stdout=out, check=True)
    part.rename(target)
    return target


def generated_bsbm(pythia, name="bsbm-10m", products=BSBM_10M_PRODUCTS):
    """BSBM by our own generator, kept in the cache."""
    target = CACHE / "data" / f"{name}.nt"
    if not target.exists():
        target.parent.mkdir(parents=True, exist_ok=True)
        part = target.with_name(f"{name}-part.nt")
        print(f"generate {target}", flush=True)
        processes.run([pythia(), "generate", "bsbm", "--products", products, "-o", part],
                      CACHE / "generate.log")
        part.rename(target)
    return target


def generated_parts(pythia, name, products, count):
    """BSBM by our own generator as a folder of compressed parts, kept in the cache. The parts are made on all cores."""
    target = CACHE / "data" / name
    if target.exists():
        return target
    part = target.with_name(f"{name}-part")
    shutil.rmtree(part, ignore_errors=True)
    part.mkdir(parents=True)
    print(f"generate {target}", flush=True)
    script = ('set -o pipefail; "$0" generate bsbm --products "$1" --files "$2" --part "$3/$2" -o - '
              '| gzip -1 > "$4/part-$(printf %02d "$3").nt.gz"')
    cores = len(os.sched_getaffinity(0))
    for first in range(1, count + 1, cores):
        children = [processes.Child(["bash", "-c", script, pythia(), products, count, number, part], CACHE / "generate.log")
                    for number in range(first, min(first + cores, count + 1))]
        for child in children:
            child.wait()
    part.rename(target)
    return target


def excerpts(path, places, length, seed):
    """Texts from random places of a file of N-Triples, or from the beginnings of the parts of a folder: what is compressed
    is read from its beginning."""
    if path.is_dir():
        parts = files(path)
        for name in parts:
            with gzip.open(name) as file:
                for _ in range(-(-places // len(parts))):
                    yield file.read(length).decode("utf-8", "replace")
        return
    rng = random.Random(seed)
    end = max(path.stat().st_size - length, 1)
    with open(path, "rb") as file:
        for _ in range(places):
            file.seek(rng.randrange(end))
            yield file.read(length).decode("utf-8", "replace")


def sample_instances(path, places=400, seed=1):
    """Instances by kind (Product, Offer, …) from excerpts of a data set."""
    found = {}
    for text in excerpts(path, places, 1 << 16, seed):
        for match in _INSTANCE.finditer(text):
            found.setdefault(match.group(1), set()).add(match.group(0))
    return {kind: sorted(names) for kind, names in found.items()}


def sample_triples(path, places=200, seed=1):
    """Triples from excerpts of a data set, each as three terms."""
    found = []
    for text in excerpts(path, places, 1 << 14, seed):
        for line in text.split("\n")[1:-1]:
            terms = line.rstrip(" .\r").split(" ", 2)
            if len(terms) == 3:
                found.append(tuple(terms))
    return found


def ensure_tool(tool, package):
    """Installs a Debian package if a tool is missing."""
    if shutil.which(tool):
        return
    sudo = [] if os.geteuid() == 0 else ["sudo"]
    print(f"install {package}", flush=True)
    log = CACHE / "apt.log"
    log.parent.mkdir(parents=True, exist_ok=True)
    env = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
    processes.run(sudo + ["apt-get", "update", "-q"], log, env=env)
    processes.run(sudo + ["apt-get", "install", "-q", "-y", "--no-install-recommends", package],
                  log, env=env)
    if not shutil.which(tool):
        raise Missing(f"{tool} is not there after installing {package}")
