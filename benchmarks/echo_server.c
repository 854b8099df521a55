/* The floor under every lookup: an epoll server on a Unix socket that answers each HTTP request with
 * the same bytes, whatever was asked.
 *
 *     echo_server SOCKET REPLY_FILE
 *
 * It finds where a request ends (its headers and content-length), as any server must, and does
 * nothing else. Prints "ready" when it listens; ends with SIGTERM.
 */

#define _GNU_SOURCE
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

enum { CONNECTIONS_MAX = 1024, REQUEST_BYTES_MAX = 8192, REPLY_BYTES_MAX = 1 << 20, EVENTS = 64 };

struct connection {
    size_t have_bytes;
    char request[REQUEST_BYTES_MAX + 1];
};

static struct connection connections[CONNECTIONS_MAX];
static char reply[REPLY_BYTES_MAX];
static size_t reply_bytes;

static void fail(const char *what)
{
    perror(what);
    exit(1);
}

/* Length of the first whole request in `c`, 0 while it is not whole. */
static size_t request_bytes(struct connection *c)
{
    c->request[c->have_bytes] = '\0';
    char *end = strstr(c->request, "\r\n\r\n");
    if (end == NULL)
        return 0;
    size_t body_bytes = 0;
    char *length = strcasestr(c->request, "\r\ncontent-length:");
    if (length != NULL && length < end)
        body_bytes = strtoul(length + sizeof "\r\ncontent-length:" - 1, NULL, 10);
    size_t whole_bytes = (size_t)(end - c->request) + 4 + body_bytes;
    return whole_bytes <= c->have_bytes ? whole_bytes : 0;
}

/* 0 when the connection is over. */
static int serve(int fd)
{
    struct connection *c = &connections[fd];
    ssize_t got = read(fd, c->request + c->have_bytes, REQUEST_BYTES_MAX - c->have_bytes);
    if (got <= 0)
        return got < 0 && (errno == EAGAIN || errno == EINTR);
    c->have_bytes += (size_t)got;
    size_t used;
    while ((used = request_bytes(c)) > 0) {
        c->have_bytes -= used;
        memmove(c->request, c->request + used, c->have_bytes);
        if (send(fd, reply, reply_bytes, MSG_NOSIGNAL) != (ssize_t)reply_bytes)
            return 0;
    }
    return 1;
}

static int listen_at(const char *path)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (fd < 0)
        fail("socket");
    strncpy(address.sun_path, path, sizeof address.sun_path - 1);
    if (bind(fd, (struct sockaddr *)&address, sizeof address) != 0)
        fail(path);
    if (listen(fd, 256) != 0)
        fail("listen");
    return fd;
}

int main(int argc, char **argv)
{
    if (argc != 3) {
        fprintf(stderr, "usage: echo_server SOCKET REPLY_FILE\n");
        return 2;
    }
    FILE *file = fopen(argv[2], "rb");
    if (file == NULL)
        fail(argv[2]);
    reply_bytes = fread(reply, 1, sizeof reply, file);
    fclose(file);

    int listener = listen_at(argv[1]);
    int poller = epoll_create1(EPOLL_CLOEXEC);
    struct epoll_event event = {.events = EPOLLIN, .data.fd = listener}, events[EVENTS];
    if (poller < 0 || epoll_ctl(poller, EPOLL_CTL_ADD, listener, &event) != 0)
        fail("epoll");
    puts("ready");
    fflush(stdout);

    for (;;) {
        int count = epoll_wait(poller, events, EVENTS, -1);
        for (int i = 0; i < count; i++) {
            int fd = events[i].data.fd;
            if (fd != listener) {
                if (!serve(fd))
                    close(fd);
                continue;
            }
            int made = accept4(listener, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);
            if (made < 0)
                continue;
            if (made >= CONNECTIONS_MAX) {
                close(made);
                continue;
            }
            connections[made].have_bytes = 0;
            event.events = EPOLLIN;
            event.data.fd = made;
            epoll_ctl(poller, EPOLL_CTL_ADD, made, &event);
        }
    }
}
