"""Point queries: each asks for little, and each is about another thing."""

import random
import urllib.parse

from . import data

VOCABULARY = "http://www4.wiwiss.fu-berlin.de/bizer/bsbm/v01/vocabulary/"
LABEL = "<http://www.w3.org/2000/01/rdf-schema#label>"


def star(product):
    """All that is said of a product."""
    return f"SELECT ?p ?o WHERE {{ {product} ?p ?o }}"


def one_hop(product):
    """What a product and its producer are called."""
    return (f"SELECT ?label ?producer ?name WHERE {{ {product} {LABEL} ?label ; "
            f"<{VOCABULARY}producer> ?producer . ?producer {LABEL} ?name }}")


def two_hops(product):
    """Who reviewed a product, and from where."""
    return (f"SELECT ?review ?reviewer ?country WHERE {{ ?review <{VOCABULARY}reviewFor> {product} ; "
            "<http://purl.org/stuff/rev#reviewer> ?reviewer . "
            f"?reviewer <{VOCABULARY}country> ?country }}")


def ask(product):
    """Whether a product has a feature."""
    return f"ASK {{ {product} <{VOCABULARY}productFeature> ?feature }}"


TEMPLATES = {"star": star, "one-hop": one_hop, "two-hops": two_hops, "ask": ask}


def queries(path, count, seed=1):
    """As many queries, of all templates in turn, about products of a BSBM file."""
    products = data.sample_instances(path, places=200, seed=seed).get("Product")
    if not products:
        raise data.Missing(f"no products of BSBM in {path}")
    rng = random.Random(seed)
    rng.shuffle(products)
    names = list(TEMPLATES)
    made = []
    for number in range(count):
        name = names[number % len(names)]
        product = products[number // len(names) % len(products)]
        made.append({"id": f"{name}-{number}", "template": name, "query": TEMPLATES[name](product)})
    rng.shuffle(made)
    return made


def any_queries(path, count, seed=1):
    """As many queries about triples at random places of any file of N-Triples: all of a subject, the objects of a
    subject and predicate, and whether a triple is there."""
    found = {}
    for subject, predicate, term in data.sample_triples(path, places=200, seed=seed):
        if subject.startswith("<"):
            found.setdefault(subject, (predicate, term))
    if not found:
        raise data.Missing(f"no triples with an IRI as subject in {path}")
    rng = random.Random(seed)
    triples = sorted(found.items())
    rng.shuffle(triples)
    made = []
    for number in range(count):
        subject, (predicate, term) = triples[number // 3 % len(triples)]
        name, text = [
            ("star", f"SELECT ?p ?o WHERE {{ {subject} ?p ?o }}"),
            ("one-hop", f"SELECT ?o WHERE {{ {subject} {predicate} ?o }}"),
            ("ask", f"ASK {{ {subject} {predicate} {term} }}"),
        ][number % 3]
        made.append({"id": f"{name}-{number}", "template": name, "query": text})
    rng.shuffle(made)
    return made


def target(query, path="/query"):
    """The path and query string that ask it."""
    return f"{path}?query={urllib.parse.quote(query['query'], safe='')}"
