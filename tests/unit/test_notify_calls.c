/* SPDX-License-Identifier: MIT */
/* Calls of a session that take their time, with policy public by seccomp notification. */
#include "notify_fixture.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"

/* The address changes under the call, between one that is allowed and one that answers but is
 * denied, as often as two processors can. */
#define RACES 5000
static struct sockaddr_in shared_address;
static atomic_bool race_over;

static void *
flip(void *arg)
{
    volatile struct sockaddr_in *a = &shared_address;
    in_addr_t open = inet_addr(NET_PUBLIC), denied = inet_addr(NET_HOST);

    while (!race_over) {
        a->sin_addr.s_addr = open;
        for (volatile int i = 0; i < 50; i++)
            ;
        a->sin_addr.s_addr = denied;
        for (volatile int i = 0; i < 50; i++)
            ;
    }
    return arg;
}

static void
race(void)
{
    pthread_t t;
    int reached = 0, refused = 0;

    shared_address = (struct sockaddr_in){.sin_family = AF_INET, .sin_port = htons(80)};
    CHECK(pthread_create(&t, NULL, flip, NULL) == 0);
    for (int i = 0; i < RACES; i++) {
        struct sockaddr_in peer;
        socklen_t n = sizeof peer;
        struct linger reset = {1, 0};
        int fd = socket(AF_INET, SOCK_DGRAM, 0);

        CHECK(fd >= 0);
        if (connect(fd, (struct sockaddr *)&shared_address, sizeof shared_address) == 0) {
            CHECK(getpeername(fd, (struct sockaddr *)&peer, &n) == 0);
            CHECK(peer.sin_addr.s_addr == inet_addr(NET_PUBLIC));
            reached++;
        } else {
            CHECK(errno == EPERM);
            refused++;
        }
        (void)setsockopt(fd, SOL_SOCKET, SO_LINGER, &reset, sizeof reset);
        (void)close(fd);
    }
    race_over = true;
    CHECK(pthread_join(t, NULL) == 0);
    CHECK(reached > 0 && refused > 0);
}

static void
an_address_that_changes_meanwhile_is_not_reached(void **state)
{
    (void)state;
    run_session(race);
}

static void *
connect_to_nowhere(void *arg)
{
    (void)connect_to(SOCK_STREAM, "93.184.216.77", 80); /* nobody there: no answer for seconds */
    return arg;
}

static void
wait_in_many_threads(void)
{
    pthread_t t;
    int64_t began;

    for (int i = 0; i < 10; i++)
        CHECK(pthread_create(&t, NULL, connect_to_nowhere, NULL) == 0);
    began = clock_mono_ms();
    for (int i = 0; i < 10; i++)
        CHECK(connect_to(SOCK_STREAM, NET_PUBLIC, 80) == 0);
    CHECK(clock_mono_ms() - began < 2000);
}

static void
one_that_waits_holds_up_no_other(void **state)
{
    int64_t began = clock_mono_ms();

    (void)state;
    run_session(wait_in_many_threads);
    /* and what waited has ended with the session */
    assert_true(clock_mono_ms() - began < 4000);
}

static void
on_signal(int signum)
{
    (void)signum;
}

static void
be_interrupted(void)
{
    struct sigaction sa = {.sa_handler = on_signal};
    int64_t began = clock_mono_ms();

    CHECK(sigaction(SIGALRM, &sa, NULL) == 0);
    (void)alarm(1);
    CHECK(connect_to(SOCK_STREAM, "93.184.216.77", 80) == EINTR);
    CHECK(clock_mono_ms() - began < 2500);
}

static void
a_signal_ends_the_wait(void **state)
{
    (void)state;
    run_session(be_interrupted);
}

static void
send_much(void)
{
    enum { MUCH = 3 << 20 };
    int pair[2];
    char *bytes = calloc(1, MUCH);
    struct iovec iov[2] = {{bytes, MUCH / 2}, {bytes, MUCH / 2}};
    struct msghdr m = {.msg_iov = iov, .msg_iovlen = 2};

    CHECK(bytes && socketpair(AF_UNIX, SOCK_STREAM, 0, pair) == 0);
    pid_t reader = fork();
    if (reader == 0) {
        size_t got = 0;

        (void)close(pair[0]);
        for (ssize_t n; (n = read(pair[1], bytes, MUCH)) > 0;)
            got += (size_t)n;
        _exit(got == MUCH ? 0 : 1);
    }
    (void)close(pair[1]);
    for (size_t sent = 0; sent < MUCH;) {
        ssize_t n = sendmsg(pair[0], &m, 0);

        CHECK(n > 0);
        sent += (size_t)n;
        iov[0].iov_len = MUCH - sent;
        m.msg_iovlen = 1;
    }
    int status;
    (void)close(pair[0]);
    CHECK(waitpid(reader, &status, 0) == reader && WEXITSTATUS(status) == 0);
    /* a message that does not fit is refused whole */
    CHECK(socketpair(AF_UNIX, SOCK_DGRAM, 0, pair) == 0);
    iov[0].iov_len = MUCH;
    CHECK(sendmsg(pair[0], &m, 0) == -1 && errno == EMSGSIZE);
    m.msg_iovlen = 5000;
    CHECK(sendmsg(pair[0], &m, 0) == -1 && errno == EMSGSIZE);
}

static void
long_messages_go_in_pieces(void **state)
{
    (void)state;
    run_session(send_much);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_address_that_changes_meanwhile_is_not_reached),
        cmocka_unit_test(one_that_waits_holds_up_no_other),
        cmocka_unit_test(a_signal_ends_the_wait),
        cmocka_unit_test(long_messages_go_in_pieces),
    };

    return notify_tests_run(tests, sizeof(tests) / sizeof(tests[0]));
}
