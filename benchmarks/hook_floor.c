/* The floor under every hook: the least that a client and a server can do.
 *
 *     hook_floor ask SOCKET                 stdin to the socket, what comes back to stdout
 *     hook_floor serve SOCKET REPLY_FILE    the same reply to every document
 *
 * The server takes a document to be whole where a piece of it ends with a brace, serves one client
 * after the other, prints "ready" when it listens, and ends with SIGTERM.
 */

#define _GNU_SOURCE
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

enum { BYTES_MAX = 1 << 20 };

static char bytes[BYTES_MAX], reply[BYTES_MAX];

static void fail(const char *what)
{
    perror(what);
    exit(1);
}

static int unix_socket(const char *path, struct sockaddr_un *address)
{
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (fd < 0)
        fail("socket");
    memset(address, 0, sizeof *address);
    address->sun_family = AF_UNIX;
    strncpy(address->sun_path, path, sizeof address->sun_path - 1);
    return fd;
}

static void copy(int from, int to)
{
    ssize_t got;
    while ((got = read(from, bytes, sizeof bytes)) > 0)
        for (ssize_t done = 0, put; done < got; done += put)
            if ((put = write(to, bytes + done, (size_t)(got - done))) < 0)
                fail("write");
    if (got < 0)
        fail("read");
}

static int ask(const char *path)
{
    struct sockaddr_un address;
    int fd = unix_socket(path, &address);
    if (connect(fd, (struct sockaddr *)&address, sizeof address) != 0)
        fail(path);
    copy(STDIN_FILENO, fd);
    shutdown(fd, SHUT_WR);
    copy(fd, STDOUT_FILENO);
    return 0;
}

static int serve(const char *path, const char *reply_path)
{
    FILE *file = fopen(reply_path, "rb");
    if (file == NULL)
        fail(reply_path);
    size_t reply_bytes = fread(reply, 1, sizeof reply, file);
    fclose(file);

    struct sockaddr_un address;
    int listener = unix_socket(path, &address);
    if (bind(listener, (struct sockaddr *)&address, sizeof address) != 0)
        fail(path);
    if (listen(listener, 256) != 0)
        fail("listen");
    puts("ready");
    fflush(stdout);
    for (;;) {
        int fd = accept4(listener, NULL, NULL, SOCK_CLOEXEC);
        if (fd < 0)
            continue;
        ssize_t got;
        while ((got = read(fd, bytes, sizeof bytes)) > 0)
            if (bytes[got - 1] == '}')
                break;
        send(fd, reply, reply_bytes, MSG_NOSIGNAL);
        close(fd);
    }
}

int main(int argc, char **argv)
{
    if (argc == 3 && strcmp(argv[1], "ask") == 0)
        return ask(argv[2]);
    if (argc == 4 && strcmp(argv[1], "serve") == 0)
        return serve(argv[2], argv[3]);
    fprintf(stderr, "usage: hook_floor ask SOCKET | serve SOCKET REPLY_FILE\n");
    return 2;
}
