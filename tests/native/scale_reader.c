/* Reads all payloads of a variant through client/c, several at a time, again whenever it is told to:
 *
 *   scale_reader STREAMS LARGEST PACKAGE COMPONENT VARIANT
 *
 * The daemon is that of $SEALCAR_SOCKET, and no payload is larger than LARGEST bytes. Says "ready"
 * once it is connected; answers each line with one of JSON: when it began and ended (seconds of
 * CLOCK_MONOTONIC), the bytes that came, the seconds that it computed, and for every blob the
 * seconds from its being asked for until its first byte was in memory, give or take 0.2 ms. */
#define _GNU_SOURCE
#include "sealcar.h"
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>

enum { MOST_STREAMS = 16, PIECE = 1 << 20, NUMBER = 8 };

struct stream {
    unsigned char *memory;
    _Atomic(double) asked; /* 0: its first byte is there */
    double first;
    pthread_t thread;
};

static struct stream streams[MOST_STREAMS];
static sealcar_scope *scope;
static const struct sealcar_variant *variant;
static double *seconds; /* by payload; below 0: of no blob */
static atomic_size_t next;
static atomic_int over;

static double now(clockid_t clock)
{
    struct timespec t;
    clock_gettime(clock, &t);
    return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

static void need(int failed, const sealcar_error *e)
{
    if (!failed)
        return;
    fprintf(stderr, "%d %s\n", e->reason, e->text);
    exit(1);
}

/* Each MiB of a blob begins with its number, big-endian, so never with what stands there before. */
static int untouched(const volatile unsigned char *memory)
{
    for (int i = 0; i < NUMBER; i++)
        if (memory[i] != 0xff)
            return 0;
    return 1;
}

static void check(const unsigned char *memory, uint64_t size)
{
    for (uint64_t at = 0; at + NUMBER <= size; at += PIECE) {
        uint64_t number = 0;
        for (int i = 0; i < NUMBER; i++)
            number = number << 8 | memory[at + (uint64_t)i];
        if (number != at / PIECE) {
            fprintf(stderr, "other bytes came at %llu\n", (unsigned long long)at);
            exit(1);
        }
    }
}

static void *reads(void *state)
{
    struct stream *s = state;
    sealcar_error e;
    for (size_t i; (i = atomic_fetch_add(&next, 1)) < variant->count;) {
        const struct sealcar_payload *p = &variant->payloads[i];
        double begun = now(CLOCK_MONOTONIC);
        memset(s->memory, 0xff, NUMBER);
        atomic_store(&s->asked, begun);
        need(sealcar_read(scope, p->name, s->memory, p->size, &e), &e);
        /* what came between two looks of the watcher is as old as now, at most */
        double asked = atomic_exchange(&s->asked, 0);
        seconds[i] = p->kind != SEALCAR_BLOB ? -1 : (asked ? now(CLOCK_MONOTONIC) : s->first) - begun;
        if (p->kind == SEALCAR_BLOB)
            check(s->memory, p->size);
    }
    return NULL;
}

static void *watches(void *unused)
{
    const struct timespec pause = {.tv_nsec = 200000};
    while (!atomic_load(&over)) {
        for (int i = 0; i < MOST_STREAMS; i++) {
            struct stream *s = &streams[i];
            double asked = atomic_load(&s->asked);
            if (asked == 0 || untouched(s->memory))
                continue;
            s->first = now(CLOCK_MONOTONIC);
            atomic_compare_exchange_strong(&s->asked, &asked, 0);
        }
        nanosleep(&pause, NULL);
    }
    return unused;
}

static void read_all(sealcar_client *client, const struct sealcar_name *name, int count)
{
    sealcar_error e;
    pthread_t watcher;
    uint64_t bytes = 0;
    const char *between = "";
    double begun = now(CLOCK_MONOTONIC), computed = now(CLOCK_PROCESS_CPUTIME_ID);
    need(sealcar_open(client, name, &scope, &e), &e);
    variant = sealcar_variant_of(scope);
    seconds = calloc(variant->count + 1, sizeof *seconds);
    atomic_store(&next, 0);
    atomic_store(&over, 0);
    pthread_create(&watcher, NULL, watches, NULL);
    for (int i = 0; i < count; i++)
        pthread_create(&streams[i].thread, NULL, reads, &streams[i]);
    for (int i = 0; i < count; i++)
        pthread_join(streams[i].thread, NULL);
    double ended = now(CLOCK_MONOTONIC);
    atomic_store(&over, 1);
    pthread_join(watcher, NULL);
    for (size_t i = 0; i < variant->count; i++)
        bytes += variant->payloads[i].size;
    printf("{\"begun\": %.6f, \"ended\": %.6f, \"bytes\": %llu, \"busy\": %.6f, \"first\": [", begun,
           ended, (unsigned long long)bytes, now(CLOCK_PROCESS_CPUTIME_ID) - computed);
    for (size_t i = 0; i < variant->count; i++)
        if (seconds[i] >= 0) {
            printf("%s%.6f", between, seconds[i]);
            between = ", ";
        }
    printf("]}\n");
    fflush(stdout);
    free(seconds);
    sealcar_close(scope);
}

int main(int argc, char **argv)
{
    sealcar_error e;
    sealcar_client *client;
    char line[64];
    if (argc != 6)
        return 2;
    int count = atoi(argv[1]);
    size_t largest = (size_t)strtoull(argv[2], NULL, 10) + PIECE;
    struct sealcar_name name = {.package = argv[3], .component = argv[4], .variant = argv[5]};
    if (count < 1 || count > MOST_STREAMS)
        return 2;
    for (int i = 0; i < count; i++) {
        streams[i].memory = mmap(NULL, largest, PROT_READ | PROT_WRITE,
                                 MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);
        if (streams[i].memory == MAP_FAILED)
            return 2;
    }
    need(sealcar_connect(NULL, -1, 120000, NULL, &client, &e), &e);
    puts("ready");
    fflush(stdout);
    while (fgets(line, sizeof line, stdin))
        read_all(client, &name, count);
    sealcar_disconnect(client);
    return 0;
}
