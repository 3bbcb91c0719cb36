/* Calls client/c for the tests. Every command names a scope of the daemon at $SEALCAR_SOCKET:
 *
 *   c_caller list PACKAGE COMPONENT VARIANT             a line a payload: kind, size, name
 *   c_caller read PACKAGE COMPONENT VARIANT NAME        its bytes to standard output
 *   c_caller again PACKAGE COMPONENT VARIANT NAME       with a wrong size, then the same as read
 *   c_caller write PACKAGE COMPONENT VARIANT NAME FILE  a variant of a small model and this blob
 *   c_caller drop PACKAGE COMPONENT VARIANT NAME FILE   the same, but aborted
 *   c_caller threads PACKAGE COMPONENT VARIANT NAME     8 threads read it, a fork in the midst too
 *   c_caller status PACKAGE COMPONENT VARIANT NAME      through the callback; the status's text
 *
 * Exit code 1 and "reason text" on standard error: what went wrong. */
#define _GNU_SOURCE
#include "abi.h"
#include "sealcar.h"
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

enum { THREADS = 8, ROUNDS = 6 };

static sealcar_scope *scope;
static const char *payload;
static unsigned char *expected;
static size_t size;
static unsigned char model[1 << 16];
static size_t model_size;

static void need(int failed, const sealcar_error *e)
{
    if (!failed)
        return;
    fprintf(stderr, "%d %s\n", e->reason, e->text);
    exit(1);
}

static unsigned char *whole(void)
{
    sealcar_error e;
    unsigned char *memory = malloc(size ? size : 1);
    need(sealcar_read(scope, payload, memory, size, &e), &e);
    return memory;
}

static void refused_with_another_size(void)
{
    sealcar_error e;
    unsigned char *memory = malloc(size + 1);
    memset(memory, 1, size + 1);
    if (!sealcar_read(scope, payload, memory, size + 1, &e) || e.reason != SEALCAR_INVALID_REQUEST)
        abort();
    for (size_t i = 0; i <= size; i++)
        if (memory[i])
            abort();
    free(memory);
}

static void *reads(void *unused)
{
    for (int i = 0; i < ROUNDS; i++) {
        unsigned char *memory = whole();
        if (memcmp(memory, expected, size))
            abort();
        free(memory);
    }
    return unused;
}

/* Threads and a child of fork at the same time. */
static void threads(void)
{
    pthread_t thread[THREADS];
    int status = 0;
    expected = whole();
    for (int i = 0; i < THREADS; i++)
        pthread_create(&thread[i], NULL, reads, NULL);
    pid_t child = fork();
    if (child == 0) {
        reads(NULL);
        /* what threads held is lost to a child of fork: leave without a report of leaks */
        execl("/bin/true", "true", (char *)NULL);
        _exit(1);
    }
    waitpid(child, &status, 0);
    for (int i = 0; i < THREADS; i++)
        pthread_join(thread[i], NULL);
    free(expected);
    if (status)
        abort();
}

static void write_variant(sealcar_client *client, const struct sealcar_name *name, const char *file,
                          int drop)
{
    sealcar_error e;
    sealcar_transaction *t;
    uint64_t generation = 0;
    FILE *in = fopen(file, "rb");
    fseek(in, 0, SEEK_END);
    size = (size_t)ftell(in);
    rewind(in);
    unsigned char *data = malloc(size ? size : 1);
    if (fread(data, 1, size, in) != size)
        abort();
    fclose(in);
    need(sealcar_begin(client, name, &t, &e), &e);
    if (sealcar_write(t, payload, SEALCAR_BLOB, data, size, &e) ||
        sealcar_write(t, "model.onnx", SEALCAR_MODEL, model, model_size, &e)) {
        sealcar_abort(t);
        need(1, &e);
    }
    free(data);
    if (drop) {
        sealcar_abort(t);
        return;
    }
    need(sealcar_commit(t, "", "", "", "{\"own\": {\"a\": 1}}", &generation, &e), &e);
    printf("%llu\n", (unsigned long long)generation);
}

/* ---- enough of a runtime for the callback ---------------------------------------------------- */
static OrtStatus *create_status(int code, const char *text)
{
    printf("%d %s\n", code, text);
    return (OrtStatus *)model;
}

static const void *table[API_SLOTS_30] = {[CREATE_STATUS] = create_status};

static const void *get_api(uint32_t version)
{
    return version == API_VERSION ? table : NULL;
}

static const char *get_version(void)
{
    const char *version = getenv("RUNTIME");
    return version ? version : "1.30.0";
}

static const struct api_base base = {get_api, get_version};
static size_t alive;

static void *allocate(OrtAllocator *self, size_t wanted)
{
    alive += self->version;
    return malloc(wanted);
}

static void release(OrtAllocator *self, void *memory)
{
    alive -= self->version;
    free(memory);
}

static void status(void)
{
    OrtAllocator allocator = {1, allocate, release};
    void *buffer;
    size_t got;
    if (!sealcar_read_named_buffer(scope, payload, &allocator, &buffer, &got)) {
        printf("0 %zu\n", got);
        release(&allocator, buffer);
    } else if (buffer || got) {
        abort();
    }
    if (alive)
        abort();
}

static void list(const struct sealcar_variant *v)
{
    printf("%s %s %s %s %llu %s\n", v->name.package, v->name.version, v->name.component,
           v->name.variant, (unsigned long long)v->name.generation, v->executor_info);
    for (size_t i = 0; i < v->count; i++)
        printf("%d %llu %s\n", v->payloads[i].kind, (unsigned long long)v->payloads[i].size,
               v->payloads[i].name);
}

static void on_scope(sealcar_client *client, const struct sealcar_name *name, const char *command)
{
    sealcar_error e;
    need(sealcar_open(client, name, &scope, &e), &e);
    const struct sealcar_variant *v = sealcar_variant_of(scope);
    for (size_t i = 0; payload && i < v->count; i++)
        if (strcmp(v->payloads[i].name, payload) == 0)
            size = v->payloads[i].size;
    if (strcmp(command, "list") == 0) {
        list(v);
    } else if (strcmp(command, "threads") == 0) {
        threads();
    } else if (strcmp(command, "status") == 0) {
        status();
    } else {
        if (strcmp(command, "again") == 0)
            refused_with_another_size();
        unsigned char *memory = whole();
        fwrite(memory, 1, size, stdout);
        free(memory);
    }
    sealcar_close(scope);
}

int main(int count, char **a)
{
    sealcar_client *client;
    sealcar_error e;
    const char *patience = getenv("PATIENCE_MS");
    if (count < 5)
        return 2;
    struct sealcar_name name = {a[2], NULL, a[3], a[4], 0};
    payload = count > 5 ? a[5] : NULL;
    need(sealcar_connect(NULL, -1, patience ? atoi(patience) : 20000, (const OrtApiBase *)&base,
                         &client, &e), &e);
    if (strcmp(a[1], "write") == 0 || strcmp(a[1], "drop") == 0) {
        model_size = fread(model, 1, sizeof model, stdin);
        write_variant(client, &name, a[6], a[1][0] == 'd');
    } else {
        on_scope(client, &name, a[1]);
    }
    sealcar_disconnect(client);
    return 0;
}
