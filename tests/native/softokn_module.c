/* NSS's soft token as a PKCS#11 library like any other, for tests.
 *
 * It wants to be told by an argument of C_Initialize where its files are, and callers that don't
 * know it pass none. Here NSS_SOFTOKN_PARAMETERS has that argument. */
#include <dlfcn.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

enum { OK = 0, GENERAL_ERROR = 5, LOCKS_OF_THE_SYSTEM = 2, FUNCTIONS_OF_2_40 = 68 };

typedef unsigned long initialize(void *);

struct arguments {
    void *locks[4];
    unsigned long flags;
    const char *parameters; /* of NSS, before the reserved one */
    void *reserved;
};

/* the version in the first slot, then the functions, C_Initialize first */
static void *functions[1 + FUNCTIONS_OF_2_40];
static initialize *theirs;

static unsigned long initialize_with_parameters(void *ignored)
{
    struct arguments arguments = {{NULL}, LOCKS_OF_THE_SYSTEM, getenv("NSS_SOFTOKN_PARAMETERS"), NULL};
    (void)ignored;
    return theirs(&arguments);
}

unsigned long C_GetFunctionList(void ***list);

unsigned long C_GetFunctionList(void ***list)
{
    void *library = dlopen("libsoftokn3.so", RTLD_NOW);
    unsigned long (*get)(void ***) = NULL;
    initialize *const ours = initialize_with_parameters;
    void **found = NULL;

    if (library != NULL)
        *(void **)&get = dlsym(library, "C_GetFunctionList");
    if (get == NULL || get(&found) != OK)
        return GENERAL_ERROR;
    if (theirs == NULL) {
        memcpy(functions, found, sizeof functions);
        memcpy(&theirs, &functions[1], sizeof theirs);
        memcpy(&functions[1], &ours, sizeof ours);
    }
    *list = functions;
    return OK;
}
