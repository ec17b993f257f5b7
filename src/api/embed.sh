#!/bin/sh
# SPDX-License-Identifier: MIT
# embed.sh FILE NAME: the file's bytes as a C array NAME and its length NAME_len, on stdout.
set -eu
printf '/* made by embed.sh; do not edit */\n#include "api/%s.h"\n\n' "$2"
printf 'const unsigned char %s[] = {\n' "$2"
od -An -v -tx1 "$1" | sed 's/ *\([0-9a-f][0-9a-f]\)/0x\1,/g'
printf '};\nconst size_t %s_len = sizeof(%s);\n' "$2" "$2"
