// Moves records from librdkafka's queue into the buffers of Arrow's arrays; Python makes no object for a record.
//
// Nothing is included of librdkafka: whoever loads this passes the addresses of the functions that it calls, out of
// the library that Python's client uses. What is declared here of it, the layout of a message, is public and stable.
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/types.h>

// rd_kafka_message_t of rdkafka.h.
typedef struct {
    int error;
    void *topic;
    int32_t partition;
    void *value;
    size_t value_size;
    void *key;
    size_t key_size;
    int64_t offset;
    void *internal;
} message;

_Static_assert(sizeof(void *) == 8 && sizeof(size_t) == 8 && sizeof(int) == 4, "made for 64 bits");
_Static_assert(offsetof(message, value) == 24 && offsetof(message, key) == 40, "the layout of rd_kafka_message_t");
_Static_assert(offsetof(message, offset) == 56 && sizeof(message) == 72, "the layout of rd_kafka_message_t");

// Messages of one queue that were taken and not handed on yet: waiting[next] up to waiting[count - 1].
typedef struct {
    ssize_t (*consume_batch)(void *queue, int timeout_ms, message **messages, size_t room);
    void (*destroy)(message *);
    int64_t (*timestamp)(const message *, int *kind);
    const char *(*error_text)(const message *);
    void *queue;
    message **waiting;
    size_t count;
    size_t next;
} reader;

// What the next records need: how many they are, bytes of their values and keys, how many have none.
typedef struct {
    size_t records;
    size_t value_bytes;
    size_t key_bytes;
    size_t without_value;
    size_t without_key;
} piece;

// Buffers of an Arrow array of binaries; `valid` is all zero, or NULL where every record has one.
typedef struct {
    uint8_t *valid;
    int32_t *ends;
    uint8_t *data;
} binaries;

typedef struct {
    binaries values;
    binaries keys;
    int64_t *offsets;
    int64_t *times;
} columns;

// Takes up to `room` messages when none wait. Answers how many wait, or -1: rd_kafka_last_error says why.
ssize_t reader_fill(reader *r, int timeout_ms, size_t room) {
    if (r->next < r->count) return (ssize_t)(r->count - r->next);
    ssize_t taken = r->consume_batch(r->queue, timeout_ms, r->waiting, room);
    r->next = 0;
    r->count = taken > 0 ? (size_t)taken : 0;
    return taken;
}

// The next records in a row, as many as have at most `most` bytes, at least one; none where an error is next.
void reader_measure(const reader *r, size_t most, piece *p) {
    memset(p, 0, sizeof *p);
    for (size_t i = r->next; i < r->count; i++) {
        const message *m = r->waiting[i];
        size_t values = p->value_bytes + (m->value ? m->value_size : 0);
        size_t keys = p->key_bytes + (m->key ? m->key_size : 0);
        if (m->error || (p->records && values + keys > most)) return;
        p->records++;
        p->value_bytes = values;
        p->key_bytes = keys;
        p->without_value += !m->value;
        p->without_key += !m->key;
    }
}

static void put(binaries *to, size_t row, const void *bytes, size_t size) {
    int32_t begin = to->ends[row];
    to->ends[row + 1] = begin;
    if (!bytes) return;
    if (size) memcpy(to->data + begin, bytes, size);
    to->ends[row + 1] = begin + (int32_t)size;
    if (to->valid) to->valid[row / 8] |= (uint8_t)(1u << (row % 8));
}

// Hands on the next `records`, which `reader_measure` has counted; the time of a record without one is -1.
void reader_take(reader *r, size_t records, columns *to) {
    to->values.ends[0] = to->keys.ends[0] = 0;
    for (size_t row = 0; row < records; row++) {
        message *m = r->waiting[r->next++];
        int kind = 0;
        int64_t time = r->timestamp(m, &kind);
        put(&to->values, row, m->value, m->value_size);
        put(&to->keys, row, m->key, m->key_size);
        to->offsets[row] = m->offset;
        to->times[row] = kind ? time : -1;
        r->destroy(m);
    }
}

// Hands on the error that is next: its code, its offset, and its text, cut to `room` bytes.
int reader_take_error(reader *r, int64_t *offset, char *text, size_t room) {
    message *m = r->waiting[r->next++];
    const char *said = r->error_text(m);
    int code = m->error;
    *offset = m->offset;
    text[0] = 0;
    if (said) strncat(text, said, room - 1);
    r->destroy(m);
    return code;
}

// Gives up what waits.
void reader_drop(reader *r) {
    while (r->next < r->count) r->destroy(r->waiting[r->next++]);
}

// What librdkafka calls for errors of no single partition: each is in its log already, as Python's client has it.
void reader_ignore(void *handle, int error, const char *text, void *opaque) {
    (void)handle, (void)error, (void)text, (void)opaque;
}
