"""Queries that each put one operator of an engine to work: scan, join, aggregate, sort, DISTINCT, OPTIONAL, path.

Predicates and constants are drawn at random from a store of the data, by queries: of some thousand solutions if the data has
such predicates.
"""

import random

from . import data

OPERATORS = ("scan", "join", "aggregate", "sort", "distinct", "optional", "path")
# Queries of each operator, with parameters of their own.
EACH = 3
DRAWS = 4 * EACH
# Solutions that a query should have; a pattern is drawn from those that come nearest.
ROWS = 10_000
NEAREST = 5
# Predicates that are looked at, and ends of paths.
PREDICATES = 60
ENDS = 20
# Characters of the text that a scan looks for.
TEXT = 3


class Drawn:
    """Draws queries from a data set. `ask` returns the rows of a SPARQL query, each a list of terms as Turtle has them."""

    def __init__(self, ask, seed):
        self.ask = ask
        self.random = random.Random(seed)
        counts = self.counted("SELECT ?p (COUNT(*) AS ?n) { ?s ?p ?o } GROUP BY ?p")
        largest = sorted(counts, key=lambda name: (-counts[name], name))[:PREDICATES]
        self.counts = {name: counts[name] for name in largest}
        if not self.counts:
            raise data.Missing("the data has no triples to draw queries from")

    def counted(self, query):
        """Terms with a number each."""
        return {name: int(number.split("^^")[0].strip('"')) for name, number in self.ask(query)}

    def near(self, sizes):
        """One of the names whose size is nearest to the number of solutions wanted; None if there is none."""
        ordered = sorted(sizes, key=lambda name: (distance(sizes[name]), name))[:NEAREST]
        return self.random.choice(ordered) if ordered else None

    def scan(self):
        """All objects of a predicate are searched for a text that one of them has."""
        predicate = self.near(self.counts)
        place = self.random.randrange(self.counts[predicate])
        (term,), = self.ask(f"SELECT ?o {{ ?s {predicate} ?o }} OFFSET {place} LIMIT 1")
        return f"SELECT ?s ?o {{ ?s {predicate} ?o FILTER(CONTAINS(STR(?o), \"{self.text(term)}\")) }}"

    def text(self, term):
        """Some characters of a term's text that need no escape."""
        text = term[1:term.rfind('"')] if term.startswith('"') else term
        runs = "".join(letter if letter.isascii() and letter.isalnum() else " " for letter in text).split()
        run = self.random.choice(runs) if runs else ""
        start = self.random.randrange(max(len(run) - TEXT, 0) + 1)
        return run[start:start + TEXT]

    def join(self):
        """A chain or a star of two patterns."""
        shapes = [("?s {} ?x . ?x {} ?y", "?s {} ?x . ?x ?q ?y"), ("?s {} ?x ; {} ?y", "?s {} ?x ; ?q ?y")]
        self.random.shuffle(shapes)
        for shape, links in shapes:
            for predicate in self.some():
                seconds = self.links(links, predicate)
                if seconds:
                    return f"SELECT ?s ?x ?y {{ {shape.format(predicate, self.near(seconds))} }}"
        return None

    def links(self, pattern, predicate):
        """Other predicates by the number of solutions that they have with this one."""
        found = self.counted(f"SELECT ?q (COUNT(*) AS ?n) {{ {pattern.format(predicate)} }} GROUP BY ?q")
        return {name: number for name, number in found.items() if name != predicate}

    def some(self):
        """Predicates with about the wanted number of triples, in random order."""
        names = sorted(self.counts, key=lambda name: (distance(self.counts[name]), name))[:NEAREST]
        self.random.shuffle(names)
        return names

    def aggregate(self):
        """Groups by object, with their sizes."""
        return f"SELECT ?o (COUNT(*) AS ?n) {{ ?s {self.near(self.counts)} ?o }} GROUP BY ?o"

    def sort(self):
        """All solutions of a pattern by object and subject."""
        return f"SELECT ?s ?o {{ ?s {self.near(self.counts)} ?o }} ORDER BY ?o ?s"

    def distinct(self):
        """The different objects of a predicate."""
        return f"SELECT DISTINCT ?o {{ ?s {self.near(self.counts)} ?o }}"

    def optional(self):
        """Another property of the subjects of a predicate, which some may lack."""
        for predicate in self.some():
            seconds = self.links("?s {} ?x ; ?q ?y", predicate)
            fewer = {name: number for name, number in seconds.items() if number < self.counts[predicate]}
            if seconds:
                return f"SELECT ?s ?x ?y {{ ?s {predicate} ?x OPTIONAL {{ ?s {self.near(fewer or seconds)} ?y }} }}"
        return None

    def path(self):
        """Everything from which a predicate leads to a node, over one or more edges."""
        names = list(self.counts)
        self.random.shuffle(names)
        for predicate in names:
            ends = self.counted(f"SELECT ?y (COUNT(*) AS ?n) {{ ?s {predicate} ?x . ?x {predicate} ?y FILTER(isIRI(?y)) }} "
                                f"GROUP BY ?y ORDER BY DESC(?n) ?y LIMIT {ENDS}")
            if ends:
                return f"SELECT ?s {{ ?s {predicate}+ {self.random.choice(list(ends))} }}"
        return None


def distance(number):
    """How far a number of solutions is from the one wanted, as a factor."""
    return max(number / ROWS, ROWS / max(number, 1))


def queries(ask, seed=1):
    """Queries for every operator that the data has parameters for; the operator is the template."""
    drawn = Drawn(ask, seed)
    made = []
    for operator in OPERATORS:
        texts = {}
        for _ in range(DRAWS):
            text = getattr(drawn, operator)()
            if text is None or len(texts) == EACH:
                break
            # What is drawn again is not asked twice.
            texts[text] = None
        made += [{"id": f"{operator}-{number}", "template": operator, "query": text} for number, text in enumerate(texts)]
    return made
