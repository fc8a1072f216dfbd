/* Preloaded into the harness: lets a chosen call on a chosen file fail, fall short or kill.
 *
 * fault_arm(suffix, call, nth, action, value) arms one rule: the nth call of that kind on a
 * descriptor whose path ends in suffix, or of opendir on such a path; every one if nth is 0. Actions: fail with errno value; write only value bytes
 * (a real short write); write value bytes, then die by SIGKILL; write value bytes, then append a
 * foreign line to the file before returning; append the foreign line first, then write all.
 * fault_disarm() forgets all rules. */
#define _GNU_SOURCE
#include <dirent.h>
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/types.h>
#include <unistd.h>

enum { WRITE, SYNC, TRUNCATE, OPENDIR, CALLS };
enum { FAIL, SHORT, KILL, INTRUDE, PRECEDE };
enum { RULES = 8 };

static struct rule {
    char suffix[256];
    int call, nth, action;
    long value;
} rules[RULES];
static int armed, counted[CALLS];
static const char *intruder;

void fault_arm(const char *suffix, int call, int nth, int action, long value)
{
    if (armed == RULES)
        return;
    struct rule *rule = &rules[armed];
    snprintf(rule->suffix, sizeof rule->suffix, "%s", suffix);
    rule->call = call;
    rule->nth = nth;
    rule->action = action;
    rule->value = value;
    armed++;
}

void fault_intruder(const char *line) { intruder = line; }

void fault_disarm(void)
{
    armed = 0;
    memset(counted, 0, sizeof counted);
}

static ssize_t path_of(int fd, char *path, size_t room)
{
    char link[64];
    snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    ssize_t length = readlink(link, path, room - 1);
    if (length >= 0)
        path[length] = 0;
    return length;
}

static struct rule *rule_at(const char *path, ssize_t length, int call)
{
    int hit = 0;
    struct rule *found = NULL;
    for (int i = 0; length > 0 && i < armed; i++) {
        size_t tail = strlen(rules[i].suffix);
        if (rules[i].call != call || (size_t)length < tail ||
            strcmp(path + length - tail, rules[i].suffix))
            continue;
        if (!hit++)
            counted[call]++;
        if (counted[call] == rules[i].nth || !rules[i].nth)
            found = &rules[i];
    }
    return found;
}

static struct rule *rule_for(int fd, int call)
{
    char path[4096];
    if (!armed)
        return NULL;
    int saved = errno;
    ssize_t length = path_of(fd, path, sizeof path);
    errno = saved;
    return rule_at(path, length, call);
}

static void intrude(int fd)
{
    char path[4096];
    if (!intruder || path_of(fd, path, sizeof path) < 0)
        return;
    int other = open(path, O_WRONLY | O_APPEND);
    ssize_t (*real)(int, const void *, size_t) = dlsym(RTLD_NEXT, "write");
    real(other, intruder, strlen(intruder));
    close(other);
}

ssize_t write(int fd, const void *data, size_t size)
{
    static ssize_t (*real)(int, const void *, size_t);
    if (!real)
        real = dlsym(RTLD_NEXT, "write");
    struct rule *rule = rule_for(fd, WRITE);
    if (!rule)
        return real(fd, data, size);
    if (rule->action == FAIL) {
        errno = (int)rule->value;
        return -1;
    }
    if (rule->action == PRECEDE) {
        intrude(fd);
        return real(fd, data, size);
    }
    size_t part = (size_t)rule->value < size ? (size_t)rule->value : size;
    ssize_t written = real(fd, data, part);
    if (rule->action == KILL)
        kill(getpid(), SIGKILL);
    if (rule->action == INTRUDE)
        intrude(fd);
    return written;
}

static int fails(int fd, int call)
{
    struct rule *rule = rule_for(fd, call);
    if (!rule)
        return 0;
    if (rule->action == KILL)
        kill(getpid(), SIGKILL);
    errno = (int)rule->value;
    return 1;
}

int fdatasync(int fd)
{
    static int (*real)(int);
    if (!real)
        real = dlsym(RTLD_NEXT, "fdatasync");
    return fails(fd, SYNC) ? -1 : real(fd);
}

int fsync(int fd)
{
    static int (*real)(int);
    if (!real)
        real = dlsym(RTLD_NEXT, "fsync");
    return fails(fd, SYNC) ? -1 : real(fd);
}

int ftruncate64(int fd, off64_t size)
{
    static int (*real)(int, off64_t);
    if (!real)
        real = dlsym(RTLD_NEXT, "ftruncate64");
    return fails(fd, TRUNCATE) ? -1 : real(fd, size);
}

int ftruncate(int fd, off_t size) { return ftruncate64(fd, size); }

DIR *opendir(const char *path)
{
    static DIR *(*real)(const char *);
    if (!real)
        real = dlsym(RTLD_NEXT, "opendir");
    struct rule *rule = armed ? rule_at(path, (ssize_t)strlen(path), OPENDIR) : NULL;
    if (!rule)
        return real(path);
    errno = (int)rule->value;
    return NULL;
}
