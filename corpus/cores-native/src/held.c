/* Two threads want a mutex that a third holds while it reads from a pipe into which nobody writes; a fourth wants to
 * read what the same holder has locked for writing; main waits for the holder to end. Prints "ready" when all stand.
 * `held handler`: the holder reads in a signal handler. `held crossed`: two threads hold what the other wants. */
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <unistd.h>

static pthread_mutex_t ledger = PTHREAD_MUTEX_INITIALIZER;
static pthread_rwlock_t table = PTHREAD_RWLOCK_INITIALIZER;
static int ends[2];
static pthread_barrier_t held;
volatile int balance;
static int in_handler;

__attribute__((noinline)) static int read_request(int fd)
{
	char byte = 0;
	ssize_t got = read(fd, &byte, 1);
	return got == 1 ? byte : -1;
}

__attribute__((noinline)) static void settle(int fd)
{
	balance += read_request(fd);
	balance *= 2;
}

static void on_signal(int number)
{
	settle(ends[0]);
	balance += number;
}

static void *settle_thread(void *fd)
{
	pthread_mutex_lock(&ledger);
	pthread_rwlock_wrlock(&table);
	pthread_barrier_wait(&held);
	if (in_handler)
		raise(SIGUSR1);
	else
		settle(*(int *)fd);
	pthread_rwlock_unlock(&table);
	pthread_mutex_unlock(&ledger);
	return NULL;
}

__attribute__((noinline)) static void post(int amount)
{
	pthread_mutex_lock(&ledger);
	balance += amount;
	pthread_mutex_unlock(&ledger);
}

static void *post_thread(void *amount)
{
	post(*(int *)amount);
	balance++;
	return NULL;
}

__attribute__((noinline)) static int look_up(int key)
{
	pthread_rwlock_rdlock(&table);
	int found = balance + key;
	pthread_rwlock_unlock(&table);
	return found;
}

static void *look_up_thread(void *key)
{
	balance = look_up(*(int *)key);
	return NULL;
}

static pthread_mutex_t audit = PTHREAD_MUTEX_INITIALIZER;

__attribute__((noinline)) static void transfer(pthread_mutex_t *first, pthread_mutex_t *second)
{
	pthread_mutex_lock(first);
	pthread_barrier_wait(&held);
	pthread_mutex_lock(second);
	balance++;
	pthread_mutex_unlock(second);
	pthread_mutex_unlock(first);
}

static void *transfer_thread(void *unused)
{
	transfer(&ledger, &audit);
	return unused;
}

static void *revise_thread(void *unused)
{
	transfer(&audit, &ledger);
	return unused;
}

/* Lock order inverted: both wait for ever. */
static int crossed(void)
{
	pthread_t both[2];
	pthread_barrier_init(&held, NULL, 2);
	pthread_create(&both[0], NULL, transfer_thread, NULL);
	pthread_create(&both[1], NULL, revise_thread, NULL);
	sleep(1);
	puts("ready");
	fflush(stdout);
	return pthread_join(both[0], NULL);
}

int main(int argc, char **argv)
{
	static int amounts[2] = {7, 11};
	pthread_t holder, others[3];
	if (argc > 1 && argv[1][0] == 'c')
		return crossed();
	in_handler = argc > 1;
	signal(SIGUSR1, on_signal);
	if (pipe(ends))
		return 1;
	pthread_barrier_init(&held, NULL, 2);
	pthread_create(&holder, NULL, settle_thread, &ends[0]);
	pthread_barrier_wait(&held);
	pthread_create(&others[0], NULL, post_thread, &amounts[0]);
	pthread_create(&others[1], NULL, post_thread, &amounts[1]);
	pthread_create(&others[2], NULL, look_up_thread, &amounts[0]);
	sleep(1);
	puts("ready");
	fflush(stdout);
	pthread_join(holder, NULL);
	for (int i = 0; i < 3; i++)
		pthread_join(others[i], NULL);
	return balance & 1;
}
