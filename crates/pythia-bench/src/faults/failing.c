// Lets one call to the operating system fail: preloaded into a process by `pythia bench syscalls`.
//
// Calls on files below a folder are counted, over all threads. The call of a given number fails with a
// given error and has no effect; at another the process is killed. The environment says so:
//
//   FAILING_BELOW   the folder: an absolute path without links in it
//   FAILING_CALL    the number of the call that fails, from 1 on
//   FAILING_ERROR   errno of that failure; what the call cannot give becomes EIO
//   FAILING_KILL    the number of the call before which the process is killed
//   FAILING_REPORT  a file of sizeof(struct report) bytes, which is told how many calls there were, and
//                   which one failed; it outlives the process
//
// What goes to the kernel without a function of the C library in between is not seen; PYTHIA_IO=pread
// keeps reads away from io_uring.
#define _GNU_SOURCE
#undef _FORTIFY_SOURCE
#include <dirent.h>
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

struct report {
    atomic_ulong calls;
    char failed[504];
};

static struct report *report;
static const char *below;
static unsigned long failing_call, killing_call;
static int failing_error;

static unsigned long number(const char *name) {
    const char *text = getenv(name);
    return text ? strtoul(text, NULL, 10) : 0;
}

__attribute__((constructor)) static void begin(void) {
    const char *name = getenv("FAILING_REPORT");
    int file = name ? open(name, O_RDWR) : -1;
    if (file < 0)
        return;
    void *there = mmap(NULL, sizeof *report, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    close(file);
    if (there == MAP_FAILED)
        return;
    failing_call = number("FAILING_CALL");
    killing_call = number("FAILING_KILL");
    failing_error = (int)number("FAILING_ERROR");
    report = there;
    below = getenv("FAILING_BELOW");
}

static int is_below(const char *path) {
    size_t length = strlen(below);
    return !strncmp(path, below, length) && (path[length] == '/' || !path[length]);
}

// The path of a file that is open; empty if it has none.
static void path_of(int file, char *path) {
    char link[40];
    snprintf(link, sizeof link, "/proc/self/fd/%d", file);
    ssize_t length = readlink(link, path, PATH_MAX - 1);
    path[length < 0 ? 0 : length] = 0;
}

// Counts a call; true if it has to fail. `accepts` are the errors besides EIO that it can give.
static int fails(const char *call, int folder, const char *name, const int *accepts) {
    if (!below)
        return 0;
    int before = errno;
    char path[PATH_MAX * 2 + 2] = "";
    if (name && name[0] == '/') {
        snprintf(path, sizeof path, "%s", name);
    } else if (folder == AT_FDCWD) {
        return 0;
    } else {
        path_of(folder, path);
        if (name && name[0]) {
            size_t length = strlen(path);
            snprintf(path + length, sizeof path - length, "/%s", name);
        }
    }
    errno = before;
    if (!is_below(path))
        return 0;
    unsigned long this_call = atomic_fetch_add(&report->calls, 1) + 1;
    if (this_call == killing_call)
        kill(getpid(), SIGKILL);
    if (this_call != failing_call)
        return 0;
    snprintf(report->failed, sizeof report->failed, "%s %s", call, path + strlen(below));
    errno = EIO;
    for (; *accepts; accepts++)
        if (*accepts == failing_error)
            errno = failing_error;
    return 1;
}

static const int OPENS[] = {EMFILE, ENOSPC, 0}, GROWS[] = {ENOSPC, 0}, PLAIN[] = {0};

// A function of the C library: its result, name, parameters, arguments; where its file is; what failure is.
#define CALL(type, name, parameters, arguments, folder, path, accepts, failure)                              \
    type name parameters {                                                                                   \
        static type(*real) parameters;                                                                       \
        if (!real)                                                                                           \
            real = dlsym(RTLD_NEXT, #name);                                                                  \
        return fails(#name, folder, path, accepts) ? failure : real arguments;                               \
    }
#define FILE_CALL(type, name, parameters, arguments, accepts)                                                \
    CALL(type, name, parameters, arguments, file, NULL, accepts, -1)
#define PATH_CALL(type, name, parameters, arguments, accepts)                                                \
    CALL(type, name, parameters, arguments, AT_FDCWD, path, accepts, -1)
#define AT_CALL(type, name, parameters, arguments, accepts)                                                  \
    CALL(type, name, parameters, arguments, folder, path, accepts, -1)

// The mode is an argument only of opens that create something.
#define OPEN(name, parameters, arguments, folder)                                                            \
    int name parameters {                                                                                    \
        static int(*real) parameters;                                                                        \
        if (!real)                                                                                           \
            real = dlsym(RTLD_NEXT, #name);                                                                  \
        mode_t mode = 0;                                                                                     \
        if (flags & (O_CREAT | __O_TMPFILE)) {                                                               \
            va_list more;                                                                                    \
            va_start(more, flags);                                                                           \
            mode = va_arg(more, mode_t);                                                                     \
            va_end(more);                                                                                    \
        }                                                                                                    \
        return fails(#name, folder, path, OPENS) ? -1 : real arguments;                                      \
    }
OPEN(open, (const char *path, int flags, ...), (path, flags, mode), AT_FDCWD)
OPEN(open64, (const char *path, int flags, ...), (path, flags, mode), AT_FDCWD)
OPEN(openat, (int folder, const char *path, int flags, ...), (folder, path, flags, mode), folder)
OPEN(openat64, (int folder, const char *path, int flags, ...), (folder, path, flags, mode), folder)

typedef const struct iovec *vectors;
FILE_CALL(ssize_t, read, (int file, void *to, size_t bytes), (file, to, bytes), PLAIN)
FILE_CALL(ssize_t, readv, (int file, vectors to, int count), (file, to, count), PLAIN)
FILE_CALL(ssize_t, pread, (int file, void *to, size_t bytes, off_t at), (file, to, bytes, at), PLAIN)
FILE_CALL(ssize_t, pread64, (int file, void *to, size_t bytes, off_t at), (file, to, bytes, at), PLAIN)
FILE_CALL(ssize_t, preadv, (int file, vectors to, int count, off_t at), (file, to, count, at), PLAIN)
FILE_CALL(ssize_t, preadv64, (int file, vectors to, int count, off_t at), (file, to, count, at), PLAIN)
FILE_CALL(ssize_t, write, (int file, const void *from, size_t bytes), (file, from, bytes), GROWS)
FILE_CALL(ssize_t, writev, (int file, vectors from, int count), (file, from, count), GROWS)
FILE_CALL(ssize_t, pwrite, (int file, const void *from, size_t bytes, off_t at), (file, from, bytes, at), GROWS)
FILE_CALL(ssize_t, pwrite64, (int file, const void *from, size_t bytes, off_t at), (file, from, bytes, at), GROWS)
FILE_CALL(ssize_t, pwritev64, (int file, vectors from, int count, off_t at), (file, from, count, at), GROWS)
FILE_CALL(int, fsync, (int file), (file), GROWS)
FILE_CALL(int, fdatasync, (int file), (file), GROWS)
FILE_CALL(int, ftruncate, (int file, off_t bytes), (file, bytes), GROWS)
FILE_CALL(int, ftruncate64, (int file, off_t bytes), (file, bytes), GROWS)
FILE_CALL(int, fallocate, (int file, int mode, off_t at, off_t bytes), (file, mode, at, bytes), GROWS)
FILE_CALL(int, fallocate64, (int file, int mode, off_t at, off_t bytes), (file, mode, at, bytes), GROWS)
FILE_CALL(int, flock, (int file, int operation), (file, operation), PLAIN)
FILE_CALL(int, fstat64, (int file, struct stat64 *to), (file, to), PLAIN)

PATH_CALL(int, unlink, (const char *path), (path), PLAIN)
PATH_CALL(int, rmdir, (const char *path), (path), PLAIN)
PATH_CALL(int, mkdir, (const char *path, mode_t mode), (path, mode), GROWS)
PATH_CALL(int, rename, (const char *path, const char *to), (path, to), GROWS)
PATH_CALL(int, stat64, (const char *path, struct stat64 *to), (path, to), PLAIN)
PATH_CALL(int, lstat64, (const char *path, struct stat64 *to), (path, to), PLAIN)
CALL(DIR *, opendir, (const char *path), (path), AT_FDCWD, path, OPENS, NULL)
CALL(struct dirent64 *, readdir64, (DIR *names), (names), dirfd(names), NULL, PLAIN, NULL)

AT_CALL(int, unlinkat, (int folder, const char *path, int flags), (folder, path, flags), PLAIN)
AT_CALL(int, mkdirat, (int folder, const char *path, mode_t mode), (folder, path, mode), GROWS)
AT_CALL(int, renameat, (int folder, const char *path, int to, const char *new), (folder, path, to, new), GROWS)
AT_CALL(int, renameat2, (int folder, const char *path, int to, const char *new, unsigned flags),
        (folder, path, to, new, flags), GROWS)
AT_CALL(int, linkat, (int folder, const char *path, int to, const char *new, int flags),
        (folder, path, to, new, flags), GROWS)
AT_CALL(int, fstatat64, (int folder, const char *path, struct stat64 *to, int flags), (folder, path, to, flags), PLAIN)
AT_CALL(int, statx, (int folder, const char *path, int flags, unsigned mask, struct statx *to),
        (folder, path, flags, mask, to), PLAIN)
