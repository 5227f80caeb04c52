//! SPARQL over HTTP: the server of Pythia.
