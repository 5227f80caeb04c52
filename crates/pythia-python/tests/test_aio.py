"""Databases for asyncio."""

import asyncio
import threading
import time
import unittest

import pythiadb
from pythiadb import AsyncDatabase, Literal, NamedNode
from server import Server

EX = "http://ex.org/"
A, B, C, P = (NamedNode(EX + name) for name in "abcp")
TURTLE = b"@prefix ex: <http://ex.org/> . ex:a ex:p ex:b . ex:b ex:p ex:c , 5 ."
ENDLESS = "SELECT (COUNT(*) AS ?n) {" + " ".join(f"?a{n} ?b{n} ?c{n} ." for n in range(20)) + "}"


def setUpModule():
    global SERVER
    SERVER = Server()


def tearDownModule():
    SERVER.stop()


class Both:
    async def asyncSetUp(self):
        self.db = self.opened()
        self.addAsyncCleanup(self.db.close)
        await self.db.update("DROP ALL")
        await self.db.load(TURTLE, format="ttl")

    async def test_queries(self):
        self.assertTrue(await self.db.query("ASK {}"))
        found = await self.db.query("SELECT ?o { ?s ?p ?o } ORDER BY ?o")
        self.assertEqual(found.columns, ["o"])
        self.assertEqual([row.o async for row in found], [B, C, Literal(5)])
        async with await self.db.query("SELECT ?o { ?s ?p ?o } ORDER BY ?o") as found:
            self.assertEqual((await found.fetchone()).o, B)
            self.assertEqual([row.o for row in await found.fetchmany(1)], [C])
            self.assertEqual(len(await found.fetchall()), 1)
            self.assertIsNone(await found.fetchone())
        triples = await self.db.query("CONSTRUCT WHERE { ?s ?p 5 }")
        self.assertEqual(len(await triples.fetchall()), 1)
        found = await self.db.query("SELECT ?o { ?s ?p 5 BIND(1 AS ?o) }")
        self.assertEqual(await found.write(format="csv"), b"o\r\n1\r\n")
        with self.assertRaises(pythiadb.QuerySyntaxError):
            await self.db.query("SELECT oops")
        self.assertIn("Pattern", await self.db.explain("SELECT * { ?s ?p ?o }"))

    async def test_many_rows_come_in_order(self):
        await self.db.load(((B, P, number) for number in range(3000)))
        found = await self.db.query("SELECT ?o { ?s ?p ?o FILTER(isNumeric(?o)) } ORDER BY ?o", native=True)
        self.assertEqual([row.o async for row in found], list(range(3000)))

    async def test_other_methods(self):
        self.assertEqual((await self.db.update("INSERT DATA { <http://a> <http://b> 1 }")).added, 1)
        self.assertEqual((await self.db.count(), await self.db.contains((A, P, B)), await self.db.graphs()), (4, True, []))
        self.assertEqual([quad.object async for quad in self.db.quads(A)], [B])
        self.assertEqual(len([quad async for quad in self.db]), 4)
        [path] = [path async for path in self.db.paths(A, C)]
        self.assertEqual(path.nodes, [A, B, C])
        self.assertEqual(len((await self.db.dump()).splitlines()), 4)
        self.assertEqual((await self.db.stats())["quads"], 4)

    async def test_the_event_loop_goes_on(self):
        ticks = 0

        async def tick():
            nonlocal ticks
            while True:
                await asyncio.sleep(0.01)
                ticks += 1

        ticking = asyncio.create_task(tick())
        with self.assertRaises(pythiadb.TimeoutError):
            await (await self.db.query(ENDLESS, timeout=0.4)).fetchall()
        ticking.cancel()
        # A loop that waits for the query has no turn meanwhile.
        self.assertGreater(ticks, 2)

    async def test_queries_run_at_once(self):
        counts = await asyncio.gather(*(self.db.query("SELECT * { ?s ?p ?o }") for _ in range(20)))
        self.assertEqual([len(rows) for rows in await asyncio.gather(*(found.fetchall() for found in counts))], [3] * 20)


class Local(Both, unittest.IsolatedAsyncioTestCase):
    def opened(self):
        return AsyncDatabase.in_memory()

    async def test_transactions(self):
        async with self.db.transaction() as transaction:
            self.assertTrue(await transaction.add((A, P, 6)))
            self.assertEqual(await transaction.extend([(A, P, 7), (A, P, 7)]), 1)
            self.assertTrue(await transaction.remove((A, P, 7)))
            self.assertEqual((await transaction.update("DELETE WHERE { ?s ?p 5 }")).removed, 1)
            self.assertFalse(await transaction.query("ASK { ?s ?p 5 }"))
            self.assertEqual(len([quad async for quad in transaction.quads(A)]), 2)
            self.assertTrue(await transaction.contains((A, P, 6)))
            self.assertFalse(await self.db.contains((A, P, 6)))
        self.assertEqual(await self.db.count(), 3)
        with self.assertRaises(ZeroDivisionError):
            async with self.db.transaction() as transaction:
                await transaction.add((A, P, 8))
                1 / 0
        self.assertFalse(await self.db.contains((A, P, 8)))

    async def test_a_cancelled_task_stops_waiting(self):
        async def work():
            await (await self.db.query(ENDLESS, timeout=3)).fetchall()

        begun = time.monotonic()
        with self.assertRaises(asyncio.TimeoutError):
            await asyncio.wait_for(work(), 0.2)
        self.assertLess(time.monotonic() - begun, 2)


class Remote(Both, unittest.IsolatedAsyncioTestCase):
    def opened(self):
        return AsyncDatabase.connect(SERVER.url)

    async def test_a_cancelled_task_ends_its_request(self):
        async def work():
            await (await self.db.query(ENDLESS)).fetchall()

        with self.assertRaises(asyncio.TimeoutError):
            await asyncio.wait_for(work(), 0.3)
        # The threads of the database are free again.
        until = time.monotonic() + 10
        while time.monotonic() < until and self.db._executor._work_queue.qsize():
            await asyncio.sleep(0.01)
        begun = time.monotonic()
        await self.db.close()
        self.assertLess(time.monotonic() - begun, 5)
        self.assertFalse([thread for thread in threading.enumerate() if thread.name.startswith("pythiadb")])


if __name__ == "__main__":
    unittest.main()
