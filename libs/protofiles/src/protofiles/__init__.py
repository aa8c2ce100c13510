"""Protobuf sources, archives and descriptor sets, as one descriptor set or as all their problems.

    bundle         files as they are brought: what is in an archive, which names and texts are taken   pure
    imports        what a source imports, and where                                                     pure
    placing        by which name each source is imported, what is missing, what goes in a circle        pure
    complaints     what the compiler says, as problems; what is defined twice                           pure
    descriptors    sets that were brought, and what is given of comments                                pure
    compiling      the process of its own, bounded in memory and time

The gateway and the command call `compile_files`; the rest is what it is made of.
"""

from protofiles.bundle import MAX_FILES, MAX_UNPACKED, Brought
from protofiles.compiling import Compiled, compile_files
from protofiles.problems import Problem

__all__ = ["MAX_FILES", "MAX_UNPACKED", "Brought", "Compiled", "Problem", "compile_files"]
