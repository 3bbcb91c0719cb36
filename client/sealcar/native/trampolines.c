/* Trampolines: the callbacks that the runtime calls, in C, each entering Python through a function
 * that returns nothing.
 *
 * A ctypes callback that raises gives its caller an undefined return value, and an undefined
 * OrtStatus * crashes the process or passes for success. Here Python reports through an outcome
 * whose done flag it sets last; whatever else happens, a proper error status goes back.
 *
 * The callbacks' state isn't a pointer but a number that Python looks up, never used twice: a
 * runtime that calls after the registration ended gets an error, not freed memory. */
#define _GNU_SOURCE
#include "abi.h"
#include <string.h>

enum { TEXT = 481, PATH = 1001 };

struct outcome {
    int32_t done; /* 1: finished without an error */
    int32_t code; /* the runtime's error code; 0: general failure */
    char text[TEXT];
};

struct read_io {
    OrtAllocator *allocator;
    void *data;
    size_t size;
};

/* where an initializer goes; external 0: it stays in the model */
struct placement {
    int32_t external;
    int64_t offset;
    size_t size;
    char path[PATH];
};

typedef void (*host_write)(uintptr_t, const char *, const void *, size_t, struct outcome *);
typedef void (*host_read)(uintptr_t, const char *, struct read_io *, struct outcome *);
typedef void (*host_model)(uintptr_t, const void *, size_t, struct outcome *);
typedef void (*host_location)(uintptr_t, const char *, const void *, size_t, struct placement *,
                              struct outcome *);

static struct {
    void *const *api;
    host_write write;
    host_read read;
    host_model model;
    host_location location;
} host;

/* Called once, before the first registration. Returns 0, or -1 if the runtime is too old. */
int sealcar_bind(const struct api_base *base, host_write write, host_read read, host_model model,
                 host_location location)
{
    void *const *api = base ? base->get_api(API_VERSION) : NULL;
    if (!api)
        return -1;
    host.write = write;
    host.read = read;
    host.model = model;
    host.location = location;
    host.api = api;
    return 0;
}

static void *status_of(struct outcome *out, const char *fallback)
{
    if (out->done)
        return NULL;
    out->text[TEXT - 1] = 0;
    return new_status(host.api, out->code > 0 ? out->code : ORT_FAIL,
                      out->text[0] ? out->text : fallback);
}

/* OrtWriteNamedBufferFunc */
OrtStatus *sealcar_write(void *state, const char *name, const void *data, size_t size)
{
    struct outcome out = {0};
    if (!name || (!data && size))
        return new_status(host.api, ORT_INVALID_ARGUMENT,
                          "the write callback got no name or no data");
    host.write((uintptr_t)state, name, data, size, &out);
    return status_of(&out, "sealcar's write callback failed");
}

/* Called by Python inside its read function: once, before it fills the buffer. */
void *sealcar_allocate(struct read_io *io, size_t size)
{
    if (io->data)
        return NULL;
    io->data = allocate_buffer(io->allocator, size);
    io->size = io->data ? size : 0;
    return io->data;
}

/* OrtReadNamedBufferFunc */
OrtStatus *sealcar_read(void *state, const char *name, OrtAllocator *allocator, void **buffer,
                        size_t *size)
{
    struct outcome out = {0};
    struct read_io io = {allocator, NULL, 0};
    if (!read_arguments(name, allocator, buffer, size))
        return new_status(host.api, ORT_INVALID_ARGUMENT,
                          "the read callback got an empty argument");
    host.read((uintptr_t)state, name, &io, &out);
    if (!out.done || !io.data) {
        if (io.data) {
            explicit_bzero(io.data, io.size); /* it may hold a part of the plaintext */
            io.allocator->free(io.allocator, io.data);
        }
        out.done = 0;
        return status_of(&out, "sealcar's read callback failed");
    }
    *buffer = io.data;
    *size = io.size;
    return NULL;
}

/* OrtWriteBufferFunc: the next piece of the compiled model */
void *sealcar_model(void *state, const void *data, size_t size)
{
    struct outcome out = {0};
    if (!data && size)
        return new_status(host.api, ORT_INVALID_ARGUMENT, "the model's write function got no data");
    host.model((uintptr_t)state, data, size, &out);
    return status_of(&out, "sealcar's model write function failed");
}

/* The bytes of a tensor; returns 0 for one without a plain memory form (strings), which stays. */
static int bytes_of(const void *value, void **data, size_t *size)
{
    void (*release)(void *) = (void (*)(void *))host.api[RELEASE_STATUS];
    void *status = ((void *(*)(const void *, size_t *))host.api[TENSOR_SIZE])(value, size);
    if (!status)
        status = ((void *(*)(const void *, void **))host.api[TENSOR_DATA])(value, data);
    if (!status)
        return 1;
    release(status);
    return 0;
}

/* OrtGetInitializerLocationFunc; the runtime owns what *placed is set to */
void *sealcar_location(void *state, const char *name, const void *value, const void *external,
                       void **placed)
{
    struct outcome out = {0};
    struct placement to = {0};
    void *data = NULL;
    size_t size = 0;
    (void)external; /* a source that lies in memory has none */
    *placed = NULL;
    if (!bytes_of(value, &data, &size))
        return NULL;
    host.location((uintptr_t)state, name, data, size, &to, &out);
    void *status = status_of(&out, "sealcar's initializer location function failed");
    if (status || !to.external)
        return status;
    to.path[PATH - 1] = 0;
    return ((void *(*)(const char *, int64_t, size_t, void **))host.api[CREATE_INITIALIZER_INFO])(
        to.path, to.offset, to.size, placed);
}
