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
    products = data.sample_instances(path, places=_places(count), seed=seed).get("Product")
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
    """As many queries about triples at random places of any file of N-Triples, of three kinds in turn: all of a subject,
    the objects of a subject and predicate, and whether a triple is there. Texts repeat only if the file has too few
    triples."""
    sampled = data.sample_triples(path, places=_places(count), seed=seed)
    triples = sorted({triple for triple in sampled if triple[0].startswith("<")})
    if not triples:
        raise data.Missing(f"no triples with an IRI as subject in {path}")
    rng = random.Random(seed)
    texts = {
        "star": {f"SELECT ?p ?o WHERE {{ {subject} ?p ?o }}" for subject, _, _ in triples},
        "one-hop": {f"SELECT ?o WHERE {{ {subject} {predicate} ?o }}" for subject, predicate, _ in triples},
        "ask": {f"ASK {{ {subject} {predicate} {term} }}" for subject, predicate, term in triples},
    }
    texts = {name: sorted(different) for name, different in texts.items()}
    for different in texts.values():
        rng.shuffle(different)
    names = list(texts)
    made = []
    for number in range(count):
        name, turn = names[number % len(names)], number // len(names)
        text = texts[name][turn % len(texts[name])]
        made.append({"id": f"{name}-{number}", "template": name, "query": text})
    rng.shuffle(made)
    return made


def _places(count):
    """How many places of a file to read for as many queries, about different things if the file has so many."""
    return max(200, count // 40)


def target(query, path="/query"):
    """The path and query string that ask it."""
    return f"{path}?query={urllib.parse.quote(query['query'], safe='')}"
