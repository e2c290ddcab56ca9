"""Prints the crates of an executable that `make package` has built, each as "name version", one a line. cargo-auditable
writes them into the section .dep-v0 as compressed JSON. Fails when the executable has no such section.

The layout is that of elf(5): e_shoff at 40, e_shnum and e_shstrndx at 60; of a section sh_name at 0, sh_offset and
sh_size at 24.
"""

import json
import struct
import sys
import zlib

with open(sys.argv[1], "rb") as file:
    binary = file.read()
if binary[:6] != b"\x7fELF\x02\x01":
    sys.exit(f"{sys.argv[1]} is no 64-bit Linux executable")
(sections,) = struct.unpack_from("<Q", binary, 40)
count, of_names = struct.unpack_from("<HH", binary, 60)


def content(index):
    """Where a section's name begins in the section of names, and the section's content."""
    (name,) = struct.unpack_from("<I", binary, sections + 64 * index)
    offset, size = struct.unpack_from("<QQ", binary, sections + 64 * index + 24)
    return name, binary[offset : offset + size]


names = content(of_names)[1]
for name, packed in map(content, range(count)):
    if names[name:].startswith(b".dep-v0\0"):
        for package in json.loads(zlib.decompress(packed))["packages"]:
            print(package["name"], package["version"])
        break
else:
    sys.exit(f"{sys.argv[1]} does not name its dependencies")
