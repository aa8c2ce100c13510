"""Protobuf sources, archives and descriptor sets, as one descriptor set or as all their problems.

    bundle              unpacks archives, checks paths, sizes and encodings                         pure
    imports             finds the import statements of a source                                     pure
    placing             resolves imports to sources; finds missing ones and cycles                  pure
    complaints          turns the compiler's output into problems; finds duplicate definitions      pure
    descriptors         reads, merges and trims descriptor sets                                     pure
    compiler_process    compiles one bundle, bounded in memory and processor time
    compiling           starts that process and reads its answer

The gateway and the command call `compile_files`; all else is internal to it.
"""

from protofiles.bundle import MAX_FILES, MAX_UNPACKED, UploadedFile
from protofiles.compiling import Compilation, compile_files
from protofiles.problems import Problem

__all__ = ["MAX_FILES", "MAX_UNPACKED", "Compilation", "Problem", "UploadedFile", "compile_files"]
