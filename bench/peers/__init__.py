"""Other RDF databases as processes beside Pythia, measured in the same way.

- compare, sections: bench/compare, and what it measures
- command: what all scripts share
- data: which triples, which queries
- engines: how each database is set up, loaded, served and stopped
- processes: children that are measured and never outlive the script
- sparql_http: one query over one kept connection
- report, page: tables, and a page with plots
- points, server_rate, overload, hostile: what Pythia's server is asked by bench/server,
  bench/overload and bench/hostile

Python 3.9 or later, standard library only.
"""
