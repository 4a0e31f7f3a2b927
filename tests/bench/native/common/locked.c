#include "locked.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "common.h"

typedef struct node {
  struct node* next;
  uint8_t data[];
} node;

static pthread_mutex_t mutex_ = PTHREAD_MUTEX_INITIALIZER;
static node *first_, **last_ = &first_;

void locked_put(const void* data, size_t bytes) {
  node* made = malloc(sizeof(*made) + bytes);
  if (made == NULL) die("malloc");
  made->next = NULL;
  memcpy(made->data, data, bytes);
  pthread_mutex_lock(&mutex_);
  *last_ = made;
  last_ = &made->next;
  pthread_mutex_unlock(&mutex_);
}

uint64_t locked_take(size_t bytes) {
  pthread_mutex_lock(&mutex_);
  node* taken = first_;
  first_ = taken->next;
  if (first_ == NULL) last_ = &first_;
  pthread_mutex_unlock(&mutex_);
  const uint64_t sum = read_all(taken->data, bytes);
  free(taken);
  return sum;
}
