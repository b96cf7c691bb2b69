/* What stands in for NVIDIA's management library in a container: as many devices as NVIDIA_VISIBLE_DEVICES names,
   with these UUIDs. It has the functions by which a program finds out which devices it was given, and no more;
   bindings such as nvidia-ml-py say of any other that this driver does not have it. */

#include <stdlib.h>
#include <string.h>

enum { SUCCESS = 0, INVALID_ARGUMENT = 2, INSUFFICIENT_SIZE = 7 };

static const char *visible(void)
{
    const char *told = getenv("NVIDIA_VISIBLE_DEVICES");
    return told == NULL || strcmp(told, "void") == 0 || strcmp(told, "none") == 0 ? "" : told;
}

/* The n-th of the names that commas separate, and its length; NULL if there are fewer. */
static const char *nth(unsigned int index, size_t *length)
{
    const char *at = visible();
    while (*at != '\0') {
        *length = strcspn(at, ",");
        if (index-- == 0)
            return at;
        at += *length;
        if (*at == ',')
            at++;
    }
    return NULL;
}

int nvmlInit_v2(void) { return SUCCESS; }
int nvmlInitWithFlags(unsigned int flags) { (void)flags; return SUCCESS; }
int nvmlShutdown(void) { return SUCCESS; }

int nvmlDeviceGetCount_v2(unsigned int *count)
{
    size_t length;
    for (*count = 0; nth(*count, &length) != NULL; ++*count)
        ;
    return SUCCESS;
}

/* A handle is the number of a device, plus one: none is NULL. */
int nvmlDeviceGetHandleByIndex_v2(unsigned int index, void **handle)
{
    size_t length;
    if (nth(index, &length) == NULL)
        return INVALID_ARGUMENT;
    *handle = (void *)((size_t)index + 1);
    return SUCCESS;
}

int nvmlDeviceGetUUID(void *handle, char *uuid, unsigned int size)
{
    size_t length;
    const char *name = handle == NULL ? NULL : nth((unsigned int)((size_t)handle - 1), &length);
    if (name == NULL)
        return INVALID_ARGUMENT;
    if (length >= size)
        return INSUFFICIENT_SIZE;
    memcpy(uuid, name, length);
    uuid[length] = '\0';
    return SUCCESS;
}

const char *nvmlErrorString(int result)
{
    switch (result) {
    case SUCCESS: return "Success";
    case INVALID_ARGUMENT: return "Invalid argument";
    case INSUFFICIENT_SIZE: return "Insufficient size";
    default: return "Unknown Error";
    }
}
