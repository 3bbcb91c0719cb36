/* The facts of ONNX Runtime's C ABI that the native part and the C client (client/c) need, by slot
 * number: its tables are append-only, so a slot never moves. No header of the runtime is used. */
#ifndef SEALCAR_ABI_H
#define SEALCAR_ABI_H

#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

/* the runtime's own names of what stays closed to us */
typedef struct OrtStatus OrtStatus;
typedef struct OrtAllocator OrtAllocator;

/* OrtReadNamedBufferFunc and OrtWriteNamedBufferFunc, the same in both generations of the callback
 * interface; NULL means success */
typedef OrtStatus *(*read_named)(void *state, const char *name, OrtAllocator *allocator,
                                 void **buffer, size_t *size);
typedef OrtStatus *(*write_named)(void *state, const char *name, const void *data, size_t size);

struct api_base {
    const void *(*get_api)(uint32_t version);
    const char *(*get_version)(void);
};

/* the first members of the runtime's allocator */
struct OrtAllocator {
    uint32_t version;
    void *(*alloc)(OrtAllocator *, size_t);
    void (*free)(OrtAllocator *, void *);
};

/* every runtime from 1.28 on accepts this version, and returns the same table for each it accepts */
enum { API_VERSION = 28 };

/* the first version with the stable callback functions */
enum { FIRST_STABLE = 31 };

/* the main table */
enum {
    CREATE_STATUS = 0,
    TENSOR_DATA = 51,
    RELEASE_STATUS = 93,
    GET_COMPILE_API = 294,
    GET_EP_API = 317,
    TENSOR_SIZE = 318,
    CREATE_INITIALIZER_INFO = 389,
    GET_EXPERIMENTAL = 422,
    SET_READ = 426, /* since 1.31 */
};

/* the compile table */
enum { COMPILE_SET_WRITE = 16 }; /* since 1.31 */

/* what 1.28 to 1.30 have in place of the two since 1.31 */
#define OLD_SET_READ "OrtApi_SessionOptions_SetEpContextDataReadFunc_SinceV28"
#define OLD_SET_WRITE "OrtCompileApi_ModelCompilationOptions_SetEpContextDataWriteFunc_SinceV28"

/* the providers' table; from CONFIG_GET on since 1.31 */
enum {
    KERNEL_INFO_GET_EP = 43,
    CONFIG_GET = 74,
    CONFIG_RELEASE = 75,
    CONFIG_READ = 76,
    CONFIG_WRITE = 77,
    EP_API_SLOTS = 78,
};

/* a factory object, and a provider object, whose slot 0 holds a 32-bit version */
enum { FACTORY_CREATE_EP = 4, FACTORY_RELEASE_EP = 5 };
enum { EP_CALLBACK_SUPPORT = 26 };
enum { SUPPORT_READ = 1, SUPPORT_WRITE = 2 };

/* length of the main table as version 30 has it: what a plugin that asks for less can look at */
enum { API_SLOTS_30 = 426 };

enum { ORT_FAIL = 1, ORT_INVALID_ARGUMENT = 2 };

/* ---- what every implementation of the callbacks does ------------------------------------------ */

/* Without a table no status can be made, and NULL means success to the runtime. */
static inline OrtStatus *new_status(void *const *api, int code, const char *text)
{
    if (!api)
        abort();
    return ((OrtStatus * (*)(int, const char *)) api[CREATE_STATUS])(code, text);
}

/* The minor number of a runtime's version, or 0. */
static inline int minor_version(const struct api_base *base)
{
    int minor = 0;
    return sscanf(base->get_version(), "1.%d", &minor) == 1 ? minor : 0;
}

/* The main table. Slots of a version are looked at only in what a runtime gives out as that version:
 * NULL, if it calls itself new enough but refuses. */
static inline void *const *main_table(const struct api_base *base)
{
    return base->get_api(minor_version(base) < FIRST_STABLE ? API_VERSION : FIRST_STABLE);
}

/* Leave a read callback's results empty until it succeeds; 0: an argument is missing. */
static inline int read_arguments(const char *name, const OrtAllocator *allocator, void **buffer,
                                 size_t *size)
{
    if (buffer)
        *buffer = NULL;
    if (size)
        *size = 0;
    return name && allocator && buffer && size;
}

/* Memory of the runtime's; NULL without it, and for a size that no memory has. */
static inline void *allocate_buffer(OrtAllocator *allocator, uint64_t size)
{
    return size && size <= PTRDIFF_MAX ? allocator->alloc(allocator, size) : NULL;
}

/* A setter of callbacks: the stable one in its slot, or the experimental one of an older runtime. */
static inline void *setter(void *const *api, int minor, void *const *table, int slot,
                           const char *old)
{
    if (minor >= FIRST_STABLE)
        return table[slot];
    return ((void *(*)(const char *))api[GET_EXPERIMENTAL])(old);
}

static inline OrtStatus *set_read(void *const *api, int minor, void *options, read_named callback,
                                  void *state)
{
    void *set = api ? setter(api, minor, api, SET_READ, OLD_SET_READ) : NULL;
    if (!set)
        return new_status(api, ORT_FAIL, "this runtime has no EPContext data callbacks");
    return ((OrtStatus * (*)(void *, read_named, void *)) set)(options, callback, state);
}

static inline OrtStatus *set_write(void *const *api, int minor, void *options, write_named callback,
                                   void *state)
{
    void *const *table = api ? ((void *const *(*)(void))api[GET_COMPILE_API])() : NULL;
    void *set = table ? setter(api, minor, table, COMPILE_SET_WRITE, OLD_SET_WRITE) : NULL;
    if (!set)
        return new_status(api, ORT_FAIL, "this runtime has no EPContext data callbacks");
    return ((OrtStatus * (*)(void *, write_named, void *)) set)(options, callback, state);
}

#endif
