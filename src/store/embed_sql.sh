#!/bin/sh
# embed_sql.sh SRCDIR FILE…: writes the C header that holds the schema's steps. The files are named
# sql/NNN_name.sql and numbered without a gap: NNN is the user_version a step leads to.
set -eu

src=$1
shift
n=0
table=
printf '/* Made from sql/ by embed_sql.sh. */\n'
for file; do
    n=$((n + 1))
    base=${file##*/}
    number=$(printf '%03d' "$n")
    case $base in
    "${number}"_*.sql) ;;
    *)
        printf '%s: expected a name beginning %s_\n' "$file" "$number" >&2
        exit 1
        ;;
    esac
    printf 'static const char step_%s[] =\n' "$number"
    sed -e 's/\\/\\\\/g' -e 's/"/\\"/g' -e 's/^/    "/' -e 's/$/\\n"/' "$src/$file"
    printf '    ;\n'
    table="$table    {\"$base\", step_$number},\n"
done
printf 'static const struct sql_step {\n    const char *name, *sql;\n} sql_steps[] = {\n'
# The table's own line breaks are meant.
printf '%b};\n' "$table"
