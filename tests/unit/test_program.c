/* SPDX-License-Identifier: MIT */
#include "support/cmocka_all.h"

#include <getopt.h>
#include <stdlib.h>
#include <unistd.h>

#include "conf/program.h"

static const char *flag, *value;
static const struct program_option own[] = {
    {"flag", false, &flag}, {"value", true, &value}, {NULL, false, NULL}};
static const struct program plain = {"husk-test", "Usage: husk-test\n", NULL};
static const struct program rich = {"husk-test", "Usage: husk-test\n", own};

/* Reads these words, the program's name before them. */
static int
run(const struct program *p, char *a, char *b, char *c, const char **ret_config)
{
    char name[] = "husk-test";
    char *argv[] = {name, a, b, c, NULL};
    int argc = 1;

    while (argv[argc])
        argc++;
    optind = 0; /* glibc: from the start, with everything forgotten */
    opterr = 0;
    flag = value = NULL;
    return program_options(p, argc, argv, ret_config);
}

static void
t_common_options(void **state)
{
    char config[] = "--config", file[] = "/x/y", help[] = "--help", version[] = "--version";
    char nonsense[] = "--nonsense", extra[] = "extra", flag_word[] = "--flag";
    const char *got = "untouched";

    (void)state;
    assert_int_equal(run(&plain, config, file, NULL, &got), -1);
    assert_string_equal(got, "/x/y");
    got = "untouched";
    assert_int_equal(run(&plain, help, NULL, NULL, &got), 0);
    assert_int_equal(run(&plain, version, NULL, NULL, &got), 0);
    assert_int_equal(run(&plain, nonsense, NULL, NULL, &got), EXIT_USAGE);
    assert_int_equal(run(&plain, flag_word, NULL, NULL, &got), EXIT_USAGE);
    assert_int_equal(run(&plain, extra, NULL, NULL, &got), EXIT_USAGE);
    assert_int_equal(run(&plain, config, NULL, NULL, &got), EXIT_USAGE);
    assert_string_equal(got, "untouched");
}

static void
t_own_options(void **state)
{
    char flag_word[] = "--flag", value_word[] = "--value=3s", bare[] = "--value";
    const char *got;

    (void)state;
    assert_int_equal(run(&rich, flag_word, value_word, NULL, &got), -1);
    assert_string_equal(flag, "");
    assert_string_equal(value, "3s");
    assert_int_equal(run(&rich, NULL, NULL, NULL, &got), -1);
    assert_null(flag);
    assert_null(value);
    assert_int_equal(run(&rich, bare, NULL, NULL, &got), EXIT_USAGE);
}

/* One rule for all programs: a reaper must not read another file than the master that starts it. */
static void
t_which_settings(void **state)
{
    const char *usual = access(PROGRAM_CONFIG, F_OK) == 0 ? PROGRAM_CONFIG : NULL;

    (void)state;
    assert_int_equal(setenv("HUSK_CONFIG", "/named", 1), 0);
    assert_string_equal(program_config("/asked"), "/asked");
    assert_string_equal(program_config(NULL), "/named");
    assert_int_equal(setenv("HUSK_CONFIG", "", 1), 0);
    assert_ptr_equal(program_config(NULL), usual);
    assert_int_equal(unsetenv("HUSK_CONFIG"), 0);
    assert_ptr_equal(program_config(NULL), usual);
}

static void
t_load(void **state)
{
    struct settings s;
    struct err err = ERR_INIT;

    (void)state;
    assert_int_equal(program_load("husk-test", "/does/not/exist", &s, &err), -1);
    assert_int_equal(err.code, ERR_NOT_FOUND);
    assert_int_equal(program_load("husk-test", NULL, &s, &err), 0);
    assert_int_equal(s.max_sessions, 32);
    settings_done(&s);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(t_common_options),
        cmocka_unit_test(t_own_options),
        cmocka_unit_test(t_which_settings),
        cmocka_unit_test(t_load),
    };
    return cmocka_run_group_tests(tests, NULL, NULL) != 0;
}
