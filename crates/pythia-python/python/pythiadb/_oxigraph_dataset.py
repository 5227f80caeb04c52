"""Sets of quads in memory, with an index for each term of a quad."""

from ._pythiadb import Quad

_TERMS = ("subject", "predicate", "object", "graph_name")


class CanonicalizationAlgorithm:
    """An algorithm that gives blank nodes canonical labels. Pythia has none of them."""

    __slots__ = ("_name",)

    def __init__(self, name):
        self._name = name

    def __repr__(self):
        return f"<CanonicalizationAlgorithm {self._name}>"

    def __copy__(self):
        return self

    def __deepcopy__(self, memo):
        return self


CanonicalizationAlgorithm.UNSTABLE = CanonicalizationAlgorithm("unstable")
CanonicalizationAlgorithm.RDFC_1_0_SHA_256 = CanonicalizationAlgorithm("RDFC-1.0 (SHA-256)")
CanonicalizationAlgorithm.RDFC_1_0_SHA_384 = CanonicalizationAlgorithm("RDFC-1.0 (SHA-384)")
CanonicalizationAlgorithm.RDFC_1_0 = CanonicalizationAlgorithm.RDFC_1_0_SHA_256


class Dataset:
    """A set of quads in memory.

    It is False if it is empty, as Python's own sets are; pyoxigraph's is True then.

    >>> dataset = Dataset([Quad(NamedNode('http://a'), NamedNode('http://b'), Literal(1))])
    >>> [quad.predicate for quad in dataset.quads_for_object(Literal(1))]
    [<NamedNode value=http://b>]
    """

    __hash__ = None

    def __init__(self, quads=None):
        self.clear()
        for quad in quads or ():
            self.add(quad)

    def add(self, quad):
        """Adds a quad."""
        if not isinstance(quad, Quad):
            raise TypeError(f"a dataset has quads, and not a {type(quad).__name__}")
        if quad not in self._quads:
            self._quads[quad] = None
            for name, index in zip(_TERMS, self._indexes):
                index.setdefault(getattr(quad, name), {})[quad] = None

    def discard(self, quad):
        """Removes a quad, if the set has it."""
        if quad in self._quads:
            self.remove(quad)

    def remove(self, quad):
        """Removes a quad. KeyError says that the set does not have it."""
        if quad not in self._quads:
            raise KeyError(f"{quad} is not in the dataset")
        del self._quads[quad]
        for name, index in zip(_TERMS, self._indexes):
            term = getattr(quad, name)
            del index[term][quad]
            if not index[term]:
                del index[term]

    def clear(self):
        """Removes all quads."""
        self._quads = {}
        self._indexes = ({}, {}, {}, {})

    def quads_for_subject(self, subject):
        """Returns the quads with a subject."""
        return self._with(0, subject)

    def quads_for_predicate(self, predicate):
        """Returns the quads with a predicate."""
        return self._with(1, predicate)

    def quads_for_object(self, object):
        """Returns the quads with an object."""
        return self._with(2, object)

    def quads_for_graph_name(self, graph_name):
        """Returns the quads of a graph."""
        return self._with(3, graph_name)

    def _with(self, place, term):
        # A copy, so that the set can change meanwhile.
        return iter(list(self._indexes[place].get(term, ())))

    def canonicalize(self, algorithm):
        """Raises NotImplementedError: Pythia does not give blank nodes canonical labels."""
        raise NotImplementedError("Pythia does not canonicalize datasets; rdflib.compare compares graphs with blank nodes")

    def __iter__(self):
        return iter(list(self._quads))

    def __len__(self):
        return len(self._quads)

    def __bool__(self):
        return bool(self._quads)

    def __contains__(self, quad):
        return quad in self._quads

    def __eq__(self, other):
        if not isinstance(other, Dataset):
            return NotImplemented
        return self._quads.keys() == other._quads.keys()

    def __str__(self):
        return "".join(f"{quad} .\n" for quad in self._quads)

    def __repr__(self):
        return f"<Dataset of {len(self)} quads>"
