/* An inference server in C, small: it compiles a sealed model for a plugin execution provider, and
 * runs what it compiled, over client/c. It sees the runtime only as a shared library.
 *
 *   c_server compile|run RUNTIME NAME PLUGIN WRAPPER SETTINGS PACKAGE COMPONENT SOURCE VARIANT FILE
 *
 * WRAPPER is "-" or sealcar's native library, behind which the plugin is registered; SETTINGS is "-"
 * or key=value,…. `run` takes the floats of input "x" from standard input and writes those of "y" to
 * FILE. */
#define _GNU_SOURCE
#include "abi.h"
#include "sealcar.h"
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    ERROR_MESSAGE = 2, CREATE_ENV = 3, CREATE_SESSION_FROM_ARRAY = 8, RUN = 9,
    CREATE_SESSION_OPTIONS = 10, CREATE_TENSOR = 49, CREATE_CPU_MEMORY_INFO = 69,
    DEFAULT_ALLOCATOR = 78, RELEASE_ENV = 92, RELEASE_MEMORY_INFO = 94, RELEASE_SESSION = 95,
    RELEASE_VALUE = 96, RELEASE_SESSION_OPTIONS = 100, FILES_IN_MEMORY = 279, REGISTER_LIBRARY = 301,
    UNREGISTER_LIBRARY = 302, GET_DEVICES = 303, APPEND_DEVICES = 304, DEVICE_EP_NAME = 312,
};
enum { C_RELEASE, C_CREATE, C_INPUT = 3, C_OUTPUT = 6, C_COMPILE = 8, C_FLAGS, C_INFORMATION };
enum { MOST_FLOATS = 1 << 16, FLOAT = 1 };

typedef void *P;
static P const *api;

static void die(const char *what)
{
    fprintf(stderr, "%s\n", what);
    exit(1);
}

static void check(P status)
{
    if (status)
        die(((const char *(*)(P))api[ERROR_MESSAGE])(status));
}

static void need(int failed, const sealcar_error *e)
{
    if (failed)
        die(e->text);
}

static P env;

static void add_plugin(P options, char **a)
{
    const char *keys[8], *values[8];
    size_t settings = 0, count = 0;
    P const *devices;
    if (strcmp(a[2], "-") != 0) {
        char why[500] = "no wrapper";
        P wrapper = dlopen(a[2], RTLD_NOW | RTLD_LOCAL);
        int (*target)(const char *, const char *, char *, size_t) =
            wrapper ? (int (*)(const char *, const char *, char *, size_t))dlsym(wrapper, "sealcar_ep_target") : NULL;
        if (!target || target(a[0], a[1], why, sizeof why))
            die(why);
    }
    check(((P(*)(P, P, P))api[REGISTER_LIBRARY])(env, a[0], strcmp(a[2], "-") ? a[2] : a[1]));
    for (char *s = strcmp(a[3], "-") ? strtok(a[3], ",") : NULL; s && settings < 8; settings++) {
        keys[settings] = s;
        s = strchr(s, '=');
        *s++ = 0;
        values[settings] = s;
        s = strtok(NULL, ",");
    }
    check(((P(*)(P, P, size_t *))api[GET_DEVICES])(env, (P)&devices, &count));
    for (size_t i = 0; i < count; i++)
        if (strcmp(((const char *(*)(P))api[DEVICE_EP_NAME])(devices[i]), "CPUExecutionProvider")) {
            check(((P(*)(P, P, P, size_t, P, P, size_t))api[APPEND_DEVICES])(
                options, env, (P)&devices[i], 1, (P)keys, (P)values, settings));
            return;
        }
    die("the plugin has no device here");
}

/* The variant's only payload of a kind, in memory; NULL without one. */
static void *fetch(sealcar_scope *scope, int kind, const char **name, size_t *size)
{
    const struct sealcar_variant *v = sealcar_variant_of(scope);
    sealcar_error e;
    for (size_t i = 0; i < v->count; i++)
        if (v->payloads[i].kind == kind) {
            void *memory = malloc(v->payloads[i].size);
            *name = v->payloads[i].name;
            *size = v->payloads[i].size;
            need(!memory || sealcar_read(scope, *name, memory, *size, &e), &e);
            return memory;
        }
    return NULL;
}

static void *lend_weights(sealcar_scope *scope, P options)
{
    const char *name;
    size_t size;
    char *weights = fetch(scope, SEALCAR_INITIALIZERS, &name, &size);
    if (weights)
        check(((P(*)(P, P, P, P, size_t))api[FILES_IN_MEMORY])(options, &name, &weights, &size, 1));
    return weights;
}

static void compile(sealcar_client *client, struct sealcar_name *name, const char *variant, P options,
                    const char *ep)
{
    sealcar_error e;
    sealcar_scope *scope;
    sealcar_transaction *t;
    const char *file;
    size_t size, out_size = 0;
    P allocator, making, out = NULL;
    P const *table = ((P const *(*)(void))api[GET_COMPILE_API])();
    need(sealcar_open(client, name, &scope, &e), &e);
    P model = fetch(scope, SEALCAR_MODEL, &file, &size), weights = lend_weights(scope, options);
    name->variant = variant;
    need(sealcar_begin(client, name, &t, &e), &e);
    check(((P(*)(P *))api[DEFAULT_ALLOCATOR])(&allocator));
    check(((P(*)(P, P, P *))table[C_CREATE])(env, options, &making));
    check(((P(*)(P, P, size_t))table[C_INPUT])(making, model, size));
    check(((P(*)(P, P, P *, size_t *))table[C_OUTPUT])(making, allocator, &out, &out_size));
    /* a provider that ignores the callback can't write there */
    check(((P(*)(P, P, P))table[C_INFORMATION])(making, "/dev/null/", "model.onnx"));
    check(sealcar_set_write(t, making));
    check(((P(*)(P, P))table[C_COMPILE])(env, making));
    need(sealcar_write(t, "model.onnx", SEALCAR_MODEL, out, out_size, &e), &e);
    need(sealcar_commit(t, ep, "", "", "{\"ort\": {\"model_file\": \"model.onnx\"}}", NULL, &e), &e);
    ((OrtAllocator *)allocator)->free(allocator, out);
    ((void (*)(P))table[C_RELEASE])(making);
    free(model);
    free(weights);
    sealcar_close(scope);
}

static void run(sealcar_client *client, const struct sealcar_name *name, P options, FILE *to)
{
    static float x[MOST_FLOATS];
    sealcar_error e;
    sealcar_scope *scope;
    const char *file, *in = "x", *out = "y";
    size_t size, floats = fread(x, sizeof *x, MOST_FLOATS, stdin);
    int64_t shape[] = {1, (int64_t)floats};
    P session, info, value, answer = NULL, data;
    need(sealcar_open(client, name, &scope, &e), &e);
    P model = fetch(scope, SEALCAR_MODEL, &file, &size), weights = lend_weights(scope, options);
    check(sealcar_set_read(scope, options));
    check(((P(*)(P, P, size_t, P, P *))api[CREATE_SESSION_FROM_ARRAY])(env, model, size, options,
                                                                       &session));
    check(((P(*)(int, int, P *))api[CREATE_CPU_MEMORY_INFO])(0, 0, &info));
    check(((P(*)(P, P, size_t, P, size_t, int, P *))api[CREATE_TENSOR])(info, x, floats * sizeof *x,
                                                                       shape, 2, FLOAT, &value));
    check(((P(*)(P, P, P, P, size_t, P, size_t, P *))api[RUN])(session, NULL, &in, &value, 1, &out, 1,
                                                              &answer));
    check(((P(*)(P, P *))api[TENSOR_DATA])(answer, &data));
    check(((P(*)(P, size_t *))api[TENSOR_SIZE])(answer, &size));
    fwrite(data, 1, size, to);
    fclose(to);
    ((void (*)(P))api[RELEASE_VALUE])(answer);
    ((void (*)(P))api[RELEASE_VALUE])(value);
    ((void (*)(P))api[RELEASE_MEMORY_INFO])(info);
    ((void (*)(P))api[RELEASE_SESSION])(session);
    free(model);
    free(weights);
    sealcar_close(scope);
}

int main(int count, char **a)
{
    if (count != 12)
        die("wrong arguments");
    P library = dlopen(a[2], RTLD_NOW | RTLD_LOCAL), options;
    const struct api_base *(*base)(void) =
        library ? (const struct api_base *(*)(void))dlsym(library, "OrtGetApiBase") : NULL;
    if (!base || !(api = base()->get_api(API_VERSION)))
        die("no ONNX Runtime");
    sealcar_client *client;
    sealcar_error e;
    struct sealcar_name name = {a[7], "", a[8], a[9], 0};
    need(sealcar_connect(NULL, -1, 20000, (const OrtApiBase *)base(), &client, &e), &e);
    check(((P(*)(int, P, P *))api[CREATE_ENV])(4, "server", &env));
    check(((P(*)(P *))api[CREATE_SESSION_OPTIONS])(&options));
    add_plugin(options, a + 3);
    if (strcmp(a[1], "compile") == 0) {
        compile(client, &name, a[10], options, a[3]);
    } else {
        name.variant = a[10];
        run(client, &name, options, fopen(a[11], "wb"));
    }
    ((void (*)(P))api[RELEASE_SESSION_OPTIONS])(options);
    sealcar_disconnect(client);
    return 0;
}
