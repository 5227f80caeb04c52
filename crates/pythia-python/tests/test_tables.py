"""Results as tables of other libraries, and their tables as quads."""

import unittest
from datetime import date
from decimal import Decimal

from pythiadb import Database, NamedNode

try:
    import pandas
    import polars
    import pyarrow
except ImportError as missing:
    raise unittest.SkipTest(f"the tests of tables need pandas, polars and pyarrow: {missing}")

P, Q = NamedNode("http://p"), NamedNode("http://q")


def database(rows=1000):
    database = Database.in_memory()
    with database.transaction() as transaction:
        for number in range(rows):
            node = NamedNode(f"http://n/{number:06}")
            transaction.extend([(node, P, number), (node, Q, f"v{number % 3}")])
    return database


QUERY = "SELECT ?s ?n ?v { ?s <http://p> ?n ; <http://q> ?v } ORDER BY ?s"


class Results(unittest.TestCase):
    def test_arrow_has_typed_columns(self):
        table = pyarrow.table(database().query(QUERY).to_arrow())
        self.assertEqual(table.num_rows, 1000)
        self.assertEqual([str(field.type) for field in table.schema],
                         ["string", "int64", "dictionary<values=string, indices=int32, ordered=0>"])
        self.assertEqual(table["n"].to_pylist(), list(range(1000)))
        self.assertEqual(table["v"].to_pylist()[:4], ["v0", "v1", "v2", "v0"])
        self.assertEqual(table.schema.field("s").metadata[b"rdf.kind"], b"iri")

    def test_data_frames(self):
        frame = database().query(QUERY).to_pandas()
        self.assertIsInstance(frame, pandas.DataFrame)
        self.assertEqual((len(frame), frame["n"].sum(), list(frame["v"][:2])), (1000, 499500, ["v0", "v1"]))
        frame = database().query(QUERY).to_polars()
        self.assertIsInstance(frame, polars.DataFrame)
        self.assertEqual((frame.height, frame["n"].sum(), frame["s"][0]), (1000, 499500, "http://n/000000"))
        self.assertEqual(polars.DataFrame(database().query(QUERY)).height, 1000)

    def test_a_stream_is_read_once(self):
        solutions = database(10).query(QUERY)
        stream = solutions.to_arrow()
        pyarrow.table(stream)
        for use in (lambda: pyarrow.table(stream), solutions.to_arrow):
            with self.assertRaises(ValueError):
                use()

    def test_values_keep_their_classes(self):
        database = Database.in_memory()
        with database.transaction() as transaction:
            node = NamedNode("http://n")
            transaction.extend([(node, P, Decimal("1.5")), (node, Q, date(2026, 12, 1))])
        table = pyarrow.table(database.query("SELECT ?d ?t ?none { ?s <http://p> ?d ; <http://q> ?t }"))
        self.assertEqual(table.to_pylist(), [{"d": Decimal("1.5"), "t": date(2026, 12, 1), "none": None}])


class Tables(unittest.TestCase):
    def test_tables_are_loaded(self):
        columns = {
            "subject": ["http://a", "_:x", "<http://c>"],
            "predicate": ["http://p"] * 3,
            "object": ["text", "<http://o>", "_:x"],
            "graph": [None, "http://g", None],
        }
        expected = None
        for table in (pandas.DataFrame(columns), polars.DataFrame(columns), pyarrow.table(columns)):
            database = Database.in_memory()
            self.assertEqual(database.load(table).quads, 3, type(table))
            quads = {str(quad) for quad in database}
            expected = expected or quads
            self.assertEqual(quads, expected)
        database = Database.in_memory()
        database.load(pandas.DataFrame({"subject": ["http://a"] * 2, "predicate": ["http://p"] * 2, "object": [1, 2]}))
        self.assertEqual(sorted(int(quad.object.value) for quad in database), [1, 2])

    def test_what_is_no_table_of_quads_is_refused(self):
        for columns, said in (({"subject": ["http://a"]}, "no column predicate and no column object"),
                              ({"subject": ["no iri"], "predicate": ["http://p"], "object": [1]}, "row 0")):
            with self.assertRaisesRegex(Exception, said):
                Database.in_memory().load(pandas.DataFrame(columns))


if __name__ == "__main__":
    unittest.main()
