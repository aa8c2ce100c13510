// Looks through encoded messages for what the decoder in bulk (ptars) reads otherwise than Protobuf's reference.
//
// It marks a record as irregular where it is not sure, so it may mark too many and never too few: Protobuf's own
// parser reads those. It follows only messages that are decoded; what stands in other fields is skipped.
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

enum { IRREGULAR = 1, UNNAMED = 2 };
enum { VARINT, FIXED64, FIXED32, BYTES, MESSAGE, TIMESTAMP, DURATION, MAP };
enum { REPEATED = 1, ENUM = 2, FLAG = 4, WORD = 8 };
// What stands behind a tag of one byte of which nothing but its end is to be known.
enum { NOT_SIMPLE, A_VARINT, EIGHT_BYTES, FOUR_BYTES, SOME_BYTES, A_MESSAGE };

// A field: what it is on the wire, the node of its message, its number among those of its message that may stand
// there once (-1: any time) and among the oneofs (-1: in none), where its enum's numbers are.
typedef struct {
    uint8_t action;
    uint8_t flags;
    uint16_t unused;
    int32_t child;
    int32_t once;
    int32_t oneof;
    int32_t enum_first;
    int32_t enum_count;
} field;

// A message: its fields' places in `fields` by number, 1 more than that, 0 for none.
typedef struct {
    int32_t places;
    int32_t numbers;
    int32_t once;
    int32_t oneofs;
    int32_t entry;  // of a map: 1 where its value may be left out, 2 where it may not
} node;

typedef struct {
    const node *nodes;
    const uint8_t *simple;
    const int32_t *places;
    const field *fields;
    const int32_t *enums;
    // Hashes of the keys of the maps that are open, those of an outer message below those of an inner one.
    uint64_t *keys;
    size_t key_count;
    size_t key_room;
    int unnamed;
} scan;

typedef const uint8_t *bytes;

// The end of the varint at p, NULL where it has none; more bits than 64 are nobody's canonical form.
static inline bytes varint(bytes p, bytes end, uint64_t *value) {
    if (p < end && *p < 0x80) {
        *value = *p;
        return p + 1;
    }
    uint64_t number = 0;
    for (unsigned shift = 0; shift < 70 && p < end; shift += 7) {
        uint8_t byte = *p++;
        if (shift == 63 && byte > 1) return NULL;
        number |= (uint64_t)(byte & 0x7f) << shift;
        if (byte < 0x80) {
            *value = number;
            return p;
        }
    }
    return NULL;
}

// The end of a varint that is a tag or a length: Protobuf's reference reads no more than five bytes of those.
static inline bytes short_varint(bytes p, bytes end, uint64_t *value) {
    return varint(p, end - p > 5 ? p + 5 : end, value);
}

static inline bytes skip(bytes p, bytes end, unsigned wire) {
    uint64_t size;
    switch (wire) {
        case 0: return varint(p, end, &size);
        case 1: return end - p >= 8 ? p + 8 : NULL;
        case 2:
            p = short_varint(p, end, &size);
            return p && size <= (uint64_t)(end - p) ? p + size : NULL;
        case 5: return end - p >= 4 ? p + 4 : NULL;
        default: return NULL;  // groups: the decoder in bulk knows none
    }
}

// Whether an enum has a name for a number; where it has none for 0, the decoder in bulk would invent one.
static int named(const scan *s, const field *f, uint64_t value) {
    int32_t number = (int32_t)value, low = f->enum_first, high = low + f->enum_count;
    // Most enums have their numbers in a row.
    int64_t guess = low + (int64_t)number - s->enums[low];
    if (guess >= low && guess < high && s->enums[guess] == number) return 1;
    while (low < high) {
        int32_t middle = low + (high - low) / 2;
        if (s->enums[middle] == number) return 1;
        if (s->enums[middle] < number) low = middle + 1;
        else high = middle;
    }
    return 0;
}

static uint64_t hash(uint64_t h, const void *data, size_t size) {
    const uint8_t *p = data;
    for (; size >= 8; p += 8, size -= 8) {
        uint64_t word;
        memcpy(&word, p, 8);
        h = (h ^ word) * 0x9e3779b97f4a7c15u;
        h ^= h >> 32;
    }
    uint64_t rest = 0;
    memcpy(&rest, p, size);
    h = (h ^ rest ^ ((uint64_t)size << 56)) * 0x9e3779b97f4a7c15u;
    return h ^ h >> 29;
}

// Times by Protobuf's definition: years 1 to 9999; 10,000 years to either side, both parts of one sign.
static int is_time(int is_duration, int64_t seconds, int32_t nanos) {
    if (!is_duration)
        return seconds >= -62135596800 && seconds <= 253402300799 && nanos >= 0 && nanos <= 999999999;
    return seconds >= -315576000000 && seconds <= 315576000000 && nanos >= -999999999 && nanos <= 999999999
        && !(seconds < 0 && nanos > 0) && !(seconds > 0 && nanos < 0);
}

static int time_is_regular(bytes p, bytes end, int is_duration) {
    uint64_t seconds = 0, nanos = 0, tag;
    while (p < end) {
        p = short_varint(p, end, &tag);
        if (!p || tag >> 32 || !(tag >> 3)) return 0;
        if (tag == 8) p = varint(p, end, &seconds);
        else if (tag == 16) p = varint(p, end, &nanos);
        else p = skip(p, end, tag & 7);
        if (!p) return 0;
    }
    return is_time(is_duration, (int64_t)seconds, (int32_t)nanos);
}

static int packed_is_regular(scan *s, const field *f, bytes p, bytes end) {
    if (f->action != VARINT) return (end - p) % (f->action == FIXED64 ? 8 : 4) == 0;
    uint64_t value;
    while (p < end) {
        p = varint(p, end, &value);
        if (!p) return 0;
        if (f->flags & ENUM && !named(s, f, value)) {
            if (!(int32_t)value) return 0;
            s->unnamed = 1;
        }
    }
    return 1;
}

static int order(const void *one, const void *other) {
    uint64_t a = *(const uint64_t *)one, b = *(const uint64_t *)other;
    return a < b ? -1 : a > b;
}

static int add_key(scan *s, uint64_t key) {
    if (s->key_count == s->key_room) {
        size_t room = s->key_room ? 2 * s->key_room : 64;
        uint64_t *larger = realloc(s->keys, room * sizeof *larger);
        if (!larger) return 0;
        s->keys = larger;
        s->key_room = room;
    }
    s->keys[s->key_count++] = key;
    return 1;
}

// Whether no two keys from the one with this index on are equal; they are forgotten.
static int keys_differ(scan *s, size_t first) {
    size_t count = s->key_count - first;
    uint64_t *keys = s->keys + first;
    s->key_count = first;
    if (count <= 8) {
        for (size_t i = 1; i < count; i++)
            for (size_t j = 0; j < i; j++)
                if (keys[i] == keys[j]) return 0;
        return 1;
    }
    qsort(keys, count, sizeof *keys, order);
    for (size_t i = 1; i < count; i++)
        if (keys[i] == keys[i - 1]) return 0;
    return 1;
}

static const uint8_t WIRES[] = {0, 1, 5, 2, 2, 2, 2, 2};

static const uint8_t none_simple[128];

static int is_regular(scan *s, int32_t at, bytes p, bytes end, uint64_t *map_key);
static int plain_entry(scan *s, int32_t at, bytes p, bytes end, uint64_t *map_key);

static int field_is_regular(scan *s, const field *f, uint32_t number, bytes p, bytes end) {
    uint64_t key = number;
    switch (f->action) {
        case MESSAGE: return is_regular(s, f->child, p, end, NULL);
        case TIMESTAMP: return time_is_regular(p, end, 0);
        case DURATION: return time_is_regular(p, end, 1);
        case MAP: {
            int regular = plain_entry(s, f->child, p, end, &key);
            if (regular < 0) regular = is_regular(s, f->child, p, end, &key);
            return regular && add_key(s, key);
        }
        default: return 1;
    }
}

// The first tag that is no simple one, or the end; NULL where what stands behind a tag goes on beyond the end.
static inline bytes skip_simple(const uint8_t *simple, bytes p, bytes end) {
    uint64_t size;
    while (p < end && *p < 0x80) {
        switch (simple[*p]) {
            case A_VARINT: p = varint(p + 1, end, &size); break;
            case EIGHT_BYTES: p = end - p > 8 ? p + 9 : NULL; break;
            case FOUR_BYTES: p = end - p > 4 ? p + 5 : NULL; break;
            case SOME_BYTES:
                p = short_varint(p + 1, end, &size);
                p = p && size <= (uint64_t)(end - p) ? p + size : NULL;
                break;
            default: return p;
        }
        if (!p) return NULL;
    }
    return p;
}

// An entry of a map as it is mostly sent, key and value once each and in this order: whether it is regular, and its
// key's hash; -1 where it is sent otherwise.
static int plain_entry(scan *s, int32_t at, bytes p, bytes end, uint64_t *map_key) {
    const uint8_t *simple = s->simple + 128 * (size_t)at;
    if (p == end || *p >> 3 != 1) return -1;
    uint64_t key, size;
    bytes begin;
    if (simple[*p] == SOME_BYTES) {
        begin = short_varint(p + 1, end, &size);
        if (!begin || size > (uint64_t)(end - begin)) return 0;
        p = begin + size;
        key = hash(*map_key, begin, (size_t)size);
    } else if (simple[*p] == A_VARINT) {
        p = varint(p + 1, end, &key);
        if (!p) return 0;
        key = hash(*map_key, &key, 8);
    } else return -1;
    if (p == end || *p >> 3 != 2) return -1;
    if (simple[*p] == A_MESSAGE) {
        begin = short_varint(p + 1, end, &size);
        if (!begin || size != (uint64_t)(end - begin)) return -1;
        *map_key = key;
        const node *n = &s->nodes[at];
        return is_regular(s, s->fields[s->places[n->places + 2] - 1].child, begin, end, NULL);
    }
    if (!simple[*p] || skip(p + 1, end, *p & 7) != end) return -1;
    *map_key = key;
    return 1;
}

// Of an entry of a map, `map_key` begins as the number of its field and becomes the hash of that and of its key.
static int is_regular(scan *s, int32_t at, bytes p, bytes end, uint64_t *map_key) {
    const node *n = &s->nodes[at];
    uint64_t once[n->once / 64 + 1];
    uint32_t last[n->oneofs + 1];
    memset(once, 0, sizeof once);
    memset(last, 0, sizeof last);
    size_t first_key = s->key_count;
    unsigned entry = 0;
    uint64_t tag, value = 0, map = map_key ? *map_key : 0;
    uint64_t zero = 0;
    const uint8_t *simple = map_key ? none_simple : s->simple + 128 * (size_t)at;
    while ((p = skip_simple(simple, p, end)) != end) {
        if (!p) return 0;
        p = short_varint(p, end, &tag);
        if (!p || tag >> 32 || !(tag >> 3)) return 0;
        uint32_t number = (uint32_t)(tag >> 3);
        unsigned wire = tag & 7;
        int32_t place = number < (uint32_t)n->numbers ? s->places[n->places + (int32_t)number] : 0;
        if (!place) {
            p = skip(p, end, wire);
            if (!p || map_key) return 0;  // Python's parser drops an entry that has more than key and value
            continue;
        }
        const field *f = &s->fields[place - 1];
        if (f->oneof >= 0) {
            if (last[f->oneof] && last[f->oneof] != number) return 0;
            last[f->oneof] = number;
        }
        if (f->once >= 0) {
            uint64_t bit = (uint64_t)1 << (f->once % 64);
            if (once[f->once / 64] & bit) return 0;
            once[f->once / 64] |= bit;
        }
        if (wire != WIRES[f->action]) {
            // Numbers in a row, packed or not, are one to every parser; anything else is not known to be.
            if (wire != 2 || !(f->flags & REPEATED) || f->action > FIXED32) return 0;
            p = short_varint(p, end, &value);
            if (!p || value > (uint64_t)(end - p) || !packed_is_regular(s, f, p, p + value)) return 0;
            p += value;
            continue;
        }
        bytes begin = p;
        if (wire == 0) {
            p = varint(p, end, &value);
            if (!p) return 0;
            if (f->flags & ENUM && !named(s, f, value)) {
                if (!(int32_t)value) return 0;
                s->unnamed = 1;
            }
        } else if (wire == 2) {
            begin = short_varint(p, end, &value);
            if (!begin || value > (uint64_t)(end - begin)) return 0;
            p = begin + value;
            if (f->action > BYTES && !field_is_regular(s, f, number, begin, p)) return 0;
        } else {
            p = skip(p, end, wire);
            if (!p) return 0;
        }
        if (map_key && number <= 2) {
            if (entry & number) return 0;
            entry |= number;
            if (number == 1) {
                if (f->flags & FLAG) value = value != 0;
                else if (f->flags & WORD) value = (uint32_t)value;
                *map_key = wire == 0 ? hash(map, &value, 8) : hash(map, begin, (size_t)(p - begin));
            }
        }
    }
    if (map_key) {
        if (n->entry == 2 && !(entry & 2)) return 0;
        if (!(entry & 1)) {
            const field *key = &s->fields[s->places[n->places + 1] - 1];
            size_t size = key->action == FIXED32 ? 4 : key->action == BYTES ? 0 : 8;
            *map_key = hash(map, &zero, size);
        }
    }
    return s->key_count - first_key < 2 ? (s->key_count = first_key, 1) : keys_differ(s, first_key);
}

// Marks `count` records of an Arrow array of binaries; answers whether any has a mark.
int wire_scan(
    const node *nodes, const uint8_t *simple, const int32_t *places, const field *fields,
    const int32_t *enums, const int32_t *ends, bytes data, int64_t count, uint8_t *marks
) {
    scan s = {nodes, simple, places, fields, enums, NULL, 0, 0, 0};
    int any = 0;
    for (int64_t row = 0; row < count; row++) {
        s.unnamed = 0;
        s.key_count = 0;
        int regular = is_regular(&s, 0, data + ends[row], data + ends[row + 1], NULL);
        marks[row] = (uint8_t)((regular ? 0 : IRREGULAR) | (s.unnamed ? UNNAMED : 0));
        any |= marks[row];
    }
    free(s.keys);
    return any;
}
