"""Files of triples to a graph folder: gathered into columns, cleaned, folded, numbered, written."""

from kg.compile.compiler import BuildOptions, compile_graph

__all__ = ["BuildOptions", "compile_graph"]
