#!/bin/sh
# SPDX-License-Identifier: MIT
# embed_py.sh FILE NAME: a C header on stdout, in which NAME is the text of a Python string literal
# that stands for the file's text (comment lines left out).
set -eu
printf '/* made by embed_py.sh; do not edit */\nstatic const char %s[] =\n    "'"'"'"\n' "$2"
sed -e '/^#/d' -e 's/\\/\\\\/g' -e "s/'/\\\\'/g" -e 's/$/\\n/' "$1" |
    sed -e 's/\\/\\\\/g' -e 's/"/\\"/g' -e 's/^/    "/' -e 's/$/"/'
printf '    "'"'"'";\n'
