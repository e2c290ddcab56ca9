"""Prints the program that a Linux executable needs to be started, such as /lib64/ld-linux-x86-64.so.2; nothing for a static
one, which an image without any other files can run. Fails when the file is no 64-bit little-endian ELF executable.

The layout is that of elf(5): e_phoff at 32, e_phentsize and e_phnum at 54; of a header p_type at 0, p_offset and p_filesz at 8
and 32.
"""

import struct
import sys

PT_INTERP = 3

with open(sys.argv[1], "rb") as file:
    binary = file.read()
if binary[:6] != b"\x7fELF\x02\x01":
    sys.exit(f"{sys.argv[1]} is no 64-bit Linux executable")
(headers,) = struct.unpack_from("<Q", binary, 32)
size, count = struct.unpack_from("<HH", binary, 54)
for place in range(headers, headers + size * count, size):
    if struct.unpack_from("<I", binary, place)[0] == PT_INTERP:
        (offset,) = struct.unpack_from("<Q", binary, place + 8)
        (length,) = struct.unpack_from("<Q", binary, place + 32)
        print(binary[offset : offset + length].rstrip(b"\0").decode())
