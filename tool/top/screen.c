/* SPDX-License-Identifier: Apache-2.0 */
/* `top` on a terminal, by ncurses; see top.h. One thread: it reads, shows, and waits for a key
 * until it is time to read again. */
#include "tool/base/note.h"
#include "tool/base/time.h"
#include "tool/report/report_keys.h"
#include "tool/top/top.h"

#include <curses.h>
#include <locale.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define ESCAPE     27
#define EVERY_MIN  0.5
#define EVERY_MAX  60.0
#define WITHIN_MAX 600.0

static const char list_help[] =
    "q quit  arrows Enter look into  sort: m in use  r rate  c caches  f frag  s RSS  p PID  "
    "+ - interval  Space pause";
static const char one_help[] = "q quit  Esc back  arrows scroll  b table  w growth within  "
                               "+ - interval  Space pause";

struct screen {
    struct sa_top *top;
    char *page;
    size_t lines, first; /* of the page; the line of the first process */
    size_t chosen;       /* of the list: a row */
    size_t scroll;       /* of a process: lines that are above the screen */
    bool paused, started_with_one;
    struct sa_error note; /* why the last reading failed */
};

static void make_page(struct screen *s)
{
    char *page;
    size_t first;

    s->top->o.width = (unsigned)(COLS > 80 ? COLS : 80);
    page = sa_top_page(s->top, &first);
    if (!page)
        return;
    free(s->page);
    s->page = page;
    s->first = first;
    s->lines = 0;
    for (const char *p = page; *p; p++)
        s->lines += *p == '\n';
}

static void read_again(struct screen *s)
{
    s->note.code = SA_EXIT_DONE;
    sa_notes_begin(); /* those of the last reading are printed behind the screen */
    sa_top_read(s->top, &s->note);
    make_page(s);
}

/* Keeps what is chosen on the screen; returns how many lines are above it. */
static size_t lines_above(struct screen *s)
{
    size_t room = LINES > 3 ? (size_t)LINES - 2 : 1, most = s->lines > room ? s->lines - room : 0;

    if (s->top->o.pid) {
        if (s->scroll > most)
            s->scroll = most;
        return s->scroll;
    }
    if (s->top->rows.count && s->chosen >= s->top->rows.count)
        s->chosen = s->top->rows.count - 1;
    return s->chosen + s->first >= room ? s->chosen + s->first - room + 1 : 0;
}

static void draw_bar(int y, const char *text)
{
    attron(A_REVERSE);
    mvhline(y, 0, ' ', COLS);
    mvaddnstr(y, 0, text, COLS);
    attroff(A_REVERSE);
}

static void draw(struct screen *s)
{
    const struct sa_top_options *o = &s->top->o;
    size_t above = lines_above(s), line = 0;
    char title[256];

    erase();
    if (s->note.code)
        snprintf(title, sizeof(title), "sallocctl top: %.200s", s->note.text);
    else if (o->pid)
        snprintf(title, sizeof(title),
                 "sallocctl top, process %d, every %.1f s, growth within %.0f s%s", o->pid,
                 o->every, o->within, s->paused ? ", paused" : "");
    else
        snprintf(title, sizeof(title), "sallocctl top, %zu processes on salloc, every %.1f s%s",
                 s->top->rows.count, o->every, s->paused ? ", paused" : "");
    draw_bar(0, title);
    for (const char *p = s->page; p && *p; line++) {
        size_t length = strcspn(p, "\n");
        /* The titles of the list stay. */
        bool is_title = !o->pid && line < s->first;
        int y = 1 + (int)(is_title || line < above ? line : line - above);
        bool chosen = !o->pid && line == s->chosen + s->first;

        if ((is_title || (line >= above && !(above && !o->pid && line - above < s->first))) &&
            y < LINES - 1) {
            if (chosen || is_title)
                attron(chosen ? A_REVERSE : A_BOLD);
            mvaddnstr(y, 0, p, (int)(length < (size_t)COLS ? length : (size_t)COLS));
            attroff(A_REVERSE | A_BOLD);
        }
        p += length + (p[length] == '\n');
    }
    draw_bar(LINES - 1, o->pid ? one_help : list_help);
    refresh();
}

static void enter(struct screen *s, pid_t pid)
{
    s->top->o.pid = pid;
    s->scroll = 0;
    s->paused = false;
    free(s->page);
    s->page = NULL;
    s->lines = 0;
    read_again(s);
}

/* Keys of the list; false: it is none. */
static bool list_key(struct screen *s, int key)
{
    static const struct {
        char key;
        enum sa_row_order order;
    } orders[] = {{'m', SA_ROWS_BY_IN_USE},   {'r', SA_ROWS_BY_RATE},
                  {'c', SA_ROWS_BY_CACHES},   {'f', SA_ROWS_BY_FRAGMENTATION},
                  {'s', SA_ROWS_BY_RESIDENT}, {'p', SA_ROWS_BY_PID}};

    for (size_t i = 0; i < sizeof(orders) / sizeof(*orders); i++)
        if (key == orders[i].key) {
            s->top->o.order = orders[i].order;
            make_page(s);
            return true;
        }
    if (key == KEY_UP && s->chosen)
        s->chosen--;
    else if (key == KEY_DOWN && s->chosen + 1 < s->top->rows.count)
        s->chosen++;
    else if ((key == '\n' || key == '\r' || key == KEY_ENTER) && s->chosen < s->top->rows.count)
        enter(s, s->top->rows.rows[s->chosen].process.pid);
    else
        return key == KEY_UP || key == KEY_DOWN;
    return true;
}

/* Keys of a process. */
static bool one_key(struct screen *s, int key)
{
    struct sa_top_options *o = &s->top->o;

    switch (key) {
    case ESCAPE:
    case KEY_BACKSPACE:
        enter(s, 0);
        return true;
    case KEY_UP:
        s->scroll -= s->scroll > 0;
        return true;
    case KEY_DOWN:
        s->scroll++;
        return true;
    case KEY_PPAGE:
        s->scroll -= s->scroll < (size_t)LINES ? s->scroll : (size_t)LINES;
        return true;
    case KEY_NPAGE:
        s->scroll += (size_t)LINES;
        return true;
    case 'b':
        /* The next one, after all if there were several. */
        o->by =
            o->by && !(o->by & (o->by - 1)) && !(o->by >> (SA_REPORT_TABLES - 1)) ? o->by << 1 : 1;
        make_page(s);
        return true;
    case 'w':
        o->within = o->within * 3 > WITHIN_MAX ? o->every : o->within * 3;
        make_page(s);
        return true;
    default:
        return false;
    }
}

/* False: the user quits. */
static bool take_key(struct screen *s, int key)
{
    struct sa_top_options *o = &s->top->o;

    if (key == 'q')
        return false;
    if (key == KEY_RESIZE)
        make_page(s);
    else if (key == ' ')
        s->paused = !s->paused;
    else if (key == '+')
        o->every = o->every * 2 > EVERY_MAX ? EVERY_MAX : o->every * 2;
    else if (key == '-')
        o->every = o->every / 2 < EVERY_MIN ? EVERY_MIN : o->every / 2;
    else if (o->pid)
        one_key(s, key);
    else
        list_key(s, key);
    return true;
}

static void loop(struct screen *s)
{
    double next = sa_time_seconds() + s->top->o.every;

    for (;;) {
        double left = next - sa_time_seconds();
        int key;

        draw(s);
        timeout(left <= 0 ? 0 : (int)(left * 1000) + 1);
        key = getch();
        if (key != ERR && !take_key(s, key))
            return;
        if (sa_time_seconds() < next)
            continue;
        if (!s->paused)
            read_again(s);
        next = sa_time_seconds() + s->top->o.every;
    }
}

bool sa_top_screen(struct sa_top *top, struct sa_error *e)
{
    struct screen s = {.top = top};

    if (!sa_top_read(top, e))
        return false;
    setlocale(LC_CTYPE, ""); /* names in UTF-8 */
    set_escdelay(50);
    if (!newterm(NULL, stdout, stdin)) {
        sa_error_set(e, SA_EXIT_FAILED, "this is no terminal that can be used: try --batch");
        return false;
    }
    cbreak();
    noecho();
    keypad(stdscr, TRUE);
    curs_set(0);
    make_page(&s);
    loop(&s);
    endwin();
    free(s.page);
    return true;
}
