/* One sample of the benchmark: reads the payload "blob" through client/c into fresh memory, and says
 * how long it took, as tests/bench/child.py does.
 *
 *   c_reader PACKAGE COMPONENT VARIANT STAGE */
#define _GNU_SOURCE
#include "sealcar.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>

enum { BEHIND = 64 }; /* a page's start, as ONNX Runtime's CPU allocator gives memory */

static sealcar_scope *scope;

static void need(int failed, const sealcar_error *e)
{
    if (!failed)
        return;
    fprintf(stderr, "%s\n", e->text);
    exit(1);
}

static void *read_whole(const char *name)
{
    const struct sealcar_variant *v = sealcar_variant_of(scope);
    sealcar_error e;
    for (size_t i = 0; i < v->count; i++)
        if (strcmp(v->payloads[i].name, name) == 0) {
            size_t size = v->payloads[i].size;
            char *fresh = mmap(NULL, size + 4096, PROT_READ | PROT_WRITE,
                               MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
            if (fresh == MAP_FAILED) {
                perror("mmap");
                exit(1);
            }
            need(sealcar_read(scope, name, fresh + BEHIND, size, &e), &e);
            return fresh;
        }
    fprintf(stderr, "there is no %s\n", name);
    exit(1);
}

static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

static void say_and_wait(const char *line)
{
    char told[16];
    puts(line);
    fflush(stdout);
    if (!fgets(told, sizeof told, stdin))
        exit(0);
}

int main(int count, char **a)
{
    sealcar_client *client;
    sealcar_error e;
    char line[200];
    if (count != 5)
        return 2;
    struct sealcar_name name = {.package = a[1], .component = a[2], .variant = a[3]};
    need(sealcar_connect(NULL, -1, 20000, NULL, &client, &e), &e);
    need(sealcar_open(client, &name, &scope, &e), &e);
    read_whole("model.onnx"); /* neither key nor connection is what is measured */
    say_and_wait("ready");
    double begun = now();
    read_whole("blob");
    snprintf(line, sizeof line, "{\"%s\": %.9f}", a[4], now() - begun);
    say_and_wait(line);
    sealcar_close(scope);
    sealcar_disconnect(client);
    return 0;
}
