/* State, which the caller keeps: reset before the first sample. Nothing is allocated. */
typedef struct {
    double R[PREFIX_MEMORY];           /* triangular factors [R | z] of all channels, one after the other */
    double sums[PREFIX_CHANNELS + 1];  /* weighted sums of what is measured, and of ones */
    double t, step;                    /* instant and step of the sample before */
    int seen, steps, blocks, slot;     /* samples (2: or more), steps of the block, blocks, place of the next */
    double state[PREFIX_WIDTH], rate[PREFIX_WIDTH], block[PREFIX_WIDTH], ring[PREFIX_SLOTS][PREFIX_WIDTH];
    double row[PREFIX_WIDTH], now[2][PREFIX_WIDTH], sheet[PREFIX_ROWS][PREFIX_COLUMNS];
    double A[(PREFIX_UNKNOWNS + 1) * (PREFIX_UNKNOWNS + 1)];
    long count;                        /* samples that were taken */
} PREFIX_sequential;

extern const unsigned long PREFIX_sequential_size;
void PREFIX_sequential_reset(PREFIX_sequential *s);
int PREFIX_sequential_update(PREFIX_sequential *s, double t, const double q[PREFIX_JOINTS],
    const double qd[PREFIX_JOINTS], const double qdd[PREFIX_JOINTS], const double tau[PREFIX_JOINTS],
    const double reaction[PREFIX_PLATE]);
int PREFIX_sequential_solve(PREFIX_sequential *s, const double noise[PREFIX_CHANNELS], double X[PREFIX_UNKNOWNS]);
#if PREFIX_LEVELS
int PREFIX_sequential_solve_joint_by_joint(PREFIX_sequential *s, double X[PREFIX_UNKNOWNS]);
#endif

enum { N = PREFIX_JOINTS, TREE = PREFIX_TREE, WIDTH = PREFIX_WIDTH, CHANNELS = PREFIX_CHANNELS };
enum { UNKNOWNS = PREFIX_UNKNOWNS, SLOTS = PREFIX_SLOTS };

const unsigned long PREFIX_sequential_size = sizeof(PREFIX_sequential);

/* Forgets all samples. */
void PREFIX_sequential_reset(PREFIX_sequential *s)
{
    memset(s, 0, sizeof *s);
}

/* Adds a row of size entries by Givens rotations to a triangular factor, after scaling that by root. */
static void add_row(double *R, int size, double *row, double root)
{
    int i, j;
    for (i = 0; i < size; i++) {
        double *r = R + i * (size + 1), *y = row + i;
        const double g = r[0] * root, h = sqrt(g * g + y[0] * y[0]);
        double c, d;
        if (h == 0.0) {
            for (j = 1; j < size - i; j++) r[j] *= root;
            continue;
        }
        c = g / h;
        d = y[0] / h;
        r[0] = h;
        for (j = 1; j < size - i; j++) {
            const double x = r[j];
            r[j] = c * root * x + d * y[j];
            y[j] = c * y[j] - d * root * x;
        }
    }
}

/* Solves a triangular factor for the first size - 1 unknowns; returns 0, or the number of one that it does not tell. */
static int solve_factor(const double *R, int size, double *X)
{
    int i, k;
    for (i = 0; i < size - 1; i++) {
        double total = 0.0;
        for (k = 0; k <= i; k++) total += R[k * size + i] * R[k * size + i];
        if (!(fabs(R[i * size + i]) > 1e-10 * sqrt(total))) return i + 1;
    }
    for (i = size - 2; i >= 0; i--) {
        double x = R[i * size + size - 1];
        for (k = i + 1; k < size - 1; k++) x -= R[i * size + k] * X[k];
        X[i] = x / R[i * size + i];
    }
    return 0;
}

/* Column of friction at a joint. */
static double friction(int code, double q, double v, double unit)
{
    const double w = v / unit, sign = fabs(w) < PREFIX_STILL ? 0.0 : (w > 0.0 ? 1.0 : -1.0);
    switch (code) {
    case 0: return v;
    case 1: return sign;
    case 3: return tanh(w / 0.1);
    case 4: return v * fabs(v);
    case 5: return fabs(v);
    case 6: return exp(-(w / 0.5) * (w / 0.5)) * sign;
    case 7: return q;
    default: return 1.0;
    }
}

enum { TORQUE, MOMENTUM, GRADIENT, ENERGY };

#if PREFIX_MONOMIALS
static double power(double x, int n)
{
    double y = 1.0;
    while (n-- > 0) y *= x;
    return y;
}

/* Rows of functions F(q, qd): sums of products of powers. */
static void write_sheet(double sheet[][PREFIX_COLUMNS], int mode, const double *q, const double *v, const double *a)
{
    double value[LETTERS], slope[LETTERS], before[LONGEST + 1], gradient[LONGEST] = {0.0};
    int i, j, f, k, m;
    for (j = 0; j < TREE; j++)
        for (k = 0; k < PREFIX_COLUMNS; k++) sheet[j][k] = 0.0;
    for (i = 0; i < LETTERS; i++) {
        const int n = letter[i][2], o = letter[i][3];
        const double x = q[letter[i][0]], c = cos(x), z = sin(x);
        value[i] = letter[i][1] ? power(c, n) * power(z, o) : power(x, n);
        slope[i] = n > 0 ? n * power(x, n - 1) : 0.0;
        if (!letter[i][1]) continue;
        slope[i] = o > 0 ? o * power(c, n + 1) * power(z, o - 1) : 0.0;
        slope[i] -= n > 0 ? n * power(c, n - 1) * power(z, o + 1) : 0.0;
    }
    for (k = 0; k < PRODUCTS; k++) {
        const int begin = start_of_product[k], factors = start_of_product[k + 1] - begin;
        double after = 1.0, rate = 0.0, T;
        before[0] = 1.0;
        for (f = 0; f < factors; f++) before[f + 1] = before[f] * value[factor[begin + f]];
        for (f = factors - 1; f >= 0; f--) {
            gradient[f] = before[f] * after * slope[factor[begin + f]];
            after *= value[factor[begin + f]];
            rate += gradient[f] * v[letter[factor[begin + f]][0]];
        }
        T = before[factors];
        for (m = first_term[k]; m < first_term[k + 1]; m++) {
            const int column = term[m][0];
            const double x = coefficient[m], sign = mode == GRADIENT ? 1.0 : -1.0;
            double speed;
            i = term[m][1];
            j = term[m][2];
            if (mode == MOMENTUM) {
                if (i < 0) continue;
                sheet[i][column] += x * T * v[j];
                sheet[j][column] += x * T * v[i];
                continue;
            }
            if (mode == TORQUE && i >= 0) {
                sheet[i][column] += x * (T * a[j] + rate * v[j]);
                sheet[j][column] += x * (T * a[i] + rate * v[i]);
            }
            speed = sign * x * (i >= 0 ? v[i] * v[j] : 1.0);
            for (f = 0; f < factors; f++) sheet[letter[factor[begin + f]][0]][column] += gradient[f] * speed;
        }
    }
}
#else
static void cross(const double a[3], const double b[3], double c[3])
{
    c[0] = a[1] * b[2] - a[2] * b[1];
    c[1] = a[2] * b[0] - a[0] * b[2];
    c[2] = a[0] * b[1] - a[1] * b[0];
}

static void add_cross(const double a[3], const double b[3], double c[3])
{
    double x[3];
    int k;
    cross(a, b, x);
    for (k = 0; k < 3; k++) c[k] += x[k];
}

/* Vector of frame 0 in a link's frame. */
static void into_link(double R[3][3], const double x[3], double y[3])
{
    int k;
    for (k = 0; k < 3; k++) y[k] = R[0][k] * x[0] + R[1][k] * x[1] + R[2][k] * x[2];
}

static void add_inertia(const double a[3], const double b[3], double *row)
{
    row[0] += a[0] * b[0];
    row[1] += a[0] * b[1] + a[1] * b[0];
    row[2] += a[0] * b[2] + a[2] * b[0];
    row[3] += a[1] * b[1];
    row[4] += a[1] * b[2] + a[2] * b[1];
    row[5] += a[2] * b[2];
}

/* Adds the ten columns of S . I(u, y): a body's inertia, turned by u and moved by y, along the motion S = (su, sy). */
static void add_body(const double u[3], const double y[3], const double su[3], const double sy[3], double *row)
{
    double m[3], n[3];
    int k;
    add_inertia(su, u, row);
    cross(y, su, m);
    cross(sy, u, n);
    for (k = 0; k < 3; k++) row[6 + k] += m[k] + n[k];
    row[9] += sy[0] * y[0] + sy[1] * y[1] + sy[2] * y[2];
}

/* Adds the ten columns of S . (w x I w), velocities of the frame's origin left out. */
static void add_turning_body(const double w[3], const double su[3], const double sy[3], double *row)
{
    double m[3], n[3];
    int k;
    cross(su, w, m);
    add_inertia(m, w, row);
    cross(w, sy, m);
    cross(w, m, n);
    for (k = 0; k < 3; k++) row[6 + k] += n[k];
}

/* Poses and motions of all links, in frame 0: acceleration without gravity's. */
typedef struct {
    double R[3][3], p[3], e[3], w[3], v[3], wp[3], vp[3];
} link_motion;

static void move_links(link_motion *links, const double *q, const double *v, const double *a)
{
    int m, i, j, k;
    for (m = 0; m < LINKS; m++) {
        const int l = topological[m], up = parent[l], joint = tree_joint[l];
        const double x = joint < 0 ? 0.0 : q[joint], xd = joint < 0 ? 0.0 : v[joint], xdd = joint < 0 ? 0.0 : a[joint];
        const double turn = turns[l] ? x : 0.0, c = cos(turn), s = sin(turn);
        link_motion ground = {{{1, 0, 0}, {0, 1, 0}, {0, 0, 1}}, {0}, {0}, {0}, {0}, {0}, {0}}, *own = links + l;
        const link_motion *base = up < 0 ? &ground : links + up;
        const double *n = axis[l], skew[3][3] = {{0.0, -n[2], n[1]}, {n[2], 0.0, -n[0]}, {-n[1], n[0], 0.0}};
        double turned[3][3], still[3][3], d[3], rel[3], u[3];
        for (k = 0; k < 3; k++) ground.vp[k] = -gravity[k];
        for (i = 0; i < 3; i++) {
            d[i] = own->e[i] = 0.0;
            for (j = 0; j < 3; j++) {
                turned[i][j] = (1.0 - c) * n[i] * n[j] + s * skew[i][j] + (i == j ? c : 0.0);
                still[i][j] = 0.0;
                for (k = 0; k < 3; k++) still[i][j] += base->R[i][k] * rotation[l][3 * k + j];
            }
        }
        for (i = 0; i < 3; i++)
            for (j = 0; j < 3; j++) {
                own->R[i][j] = 0.0;
                for (k = 0; k < 3; k++) own->R[i][j] += still[i][k] * turned[k][j];
            }
        for (i = 0; i < 3; i++)
            for (k = 0; k < 3; k++) {
                own->e[i] += own->R[i][k] * axis[l][k];
                d[i] += base->R[i][k] * position[l][k];
            }
        for (k = 0; k < 3; k++) {
            if (!turns[l]) d[k] += own->e[k] * x;
            own->p[k] = base->p[k] + d[k];
            own->w[k] = base->w[k];
            own->v[k] = base->v[k];
            own->wp[k] = base->wp[k];
            own->vp[k] = base->vp[k];
        }
        add_cross(base->w, d, own->v);
        cross(base->w, d, rel);
        add_cross(base->wp, d, own->vp);
        add_cross(base->w, rel, own->vp);
        cross(base->w, own->e, u);
        for (k = 0; k < 3; k++) {
            if (turns[l]) {
                own->w[k] += own->e[k] * xd;
                own->wp[k] += own->e[k] * xdd + u[k] * xd;
            } else {
                own->v[k] += own->e[k] * xd;
                own->vp[k] += own->e[k] * xdd + 2.0 * u[k] * xd;
            }
        }
    }
}

/* Motion S of a channel seen at a link, and its rate: a joint of the tree, or a unit motion of frame 0. */
static void channel_motion(link_motion *links, int channel, link_motion *at, double S[4][3])
{
    const double none[3] = {0.0, 0.0, 0.0};
    double e[3] = {0.0, 0.0, 0.0}, rate[3], way[3], y[3];
    const link_motion *own = channel < TREE ? links + link_of_joint[channel] : 0;
    int k, revolute = channel < TREE ? turns[link_of_joint[channel]] : channel >= TREE + 3;
    if (!own) e[(channel - TREE) % 3] = 1.0;
    for (k = 0; k < 3; k++) {
        if (own) e[k] = own->e[k];
        way[k] = at->p[k] - (own ? own->p[k] : 0.0);
    }
    cross(own ? own->w : none, e, rate);
    cross(e, way, y);
    into_link(at->R, revolute ? e : none, S[0]);
    into_link(at->R, revolute ? y : e, S[1]);
    cross(own ? own->v : none, e, y);
    add_cross(rate, way, y);
    into_link(at->R, revolute ? rate : none, S[2]);
    into_link(at->R, revolute ? y : rate, S[3]);
}

/* Rows of the tree's joints, and of the wrench on the base, in all columns of all links and rotors. */
static void write_sheet(double sheet[][PREFIX_COLUMNS], int mode, const double *q, const double *v, const double *a)
{
    static const double none[3] = {0.0, 0.0, 0.0};
    link_motion links[LINKS];
    double w[3], y[3], wp[3], yp[3], g[3], S[4][3];
    int l, c, k;
    move_links(links, q, v, a);
    for (c = 0; c < PREFIX_ROWS; c++)
        for (k = 0; k < PREFIX_COLUMNS; k++) sheet[c][k] = 0.0;
    for (l = 0; l < LINKS; l++) {
        link_motion *own = links + l;
        into_link(own->R, own->w, w);
        into_link(own->R, own->v, y);
        into_link(own->R, own->wp, wp);
        into_link(own->R, own->vp, yp);
        into_link(own->R, gravity, g);
        if (mode == ENERGY) {
            double *row = sheet[0] + 10 * l;
            add_body(w, y, w, y, row);
            for (k = 0; k < 10; k++) row[k] *= 0.5;
            for (k = 0; k < 3; k++) row[6 + k] -= g[k];
            row[9] -= gravity[0] * own->p[0] + gravity[1] * own->p[1] + gravity[2] * own->p[2];
            continue;
        }
        for (c = 0; c < PREFIX_ROWS; c++) {
            double *row = sheet[c] + 10 * l;
            if (c < TREE && !moves[l][c]) continue;
            channel_motion(links, c, own, S);
            if (mode == MOMENTUM) add_body(w, y, S[0], S[1], row);
            if (mode == GRADIENT) add_body(w, y, S[2], S[3], row);
            if (mode == GRADIENT) add_body(none, g, S[0], S[1], row);
            if (mode == TORQUE) add_body(wp, yp, S[0], S[1], row);
            if (mode == TORQUE) add_turning_body(w, S[0], S[1], row);
        }
    }
    for (k = 0; k < TREE; k++) {
        if (mode == ENERGY) sheet[0][10 * LINKS + k] = 0.5 * v[k] * v[k];
        if (mode == TORQUE) sheet[k][10 * LINKS + k] = a[k];
        if (mode == MOMENTUM) sheet[k][10 * LINKS + k] = v[k];
    }
}
#endif

#if !(PREFIX_BALANCES && PREFIX_SUMMED)
/* Entries of the packed rows that are those of a sheet, times sign. */
static void pack_rows(double sheet[][PREFIX_COLUMNS], double sign, const double *qd, double *row)
{
    int c, e, i, j;
    for (c = 0; c < CHANNELS; c++)
        for (e = start[c]; e < start[c + 1] - 1; e++) {
            double x = 0.0;
            if (pick[e] < 0) continue;
            for (i = 0; i < (c < PREFIX_TORQUES ? TREE : 6); i++) {
                double weight = 0.0;
                if (PREFIX_SUMMED)
                    for (j = 0; j < N; j++) weight += to_tree[i][j] * qd[j];
                else if (c < PREFIX_TORQUES)
                    weight = to_tree[i][c];
                else
                    weight = readings[c - PREFIX_TORQUES][i];
                x += weight * sheet[c < PREFIX_TORQUES ? i : TREE + i][pick[e]];
            }
            row[e] = sign * x;
        }
}
#endif

/* Entries of friction and of what is measured. */
static void pack_measured(const double *q, const double *qd, const double *tau, const double *reaction, double *row)
{
    int c, e, j;
    for (c = 0; c < CHANNELS; c++) {
        double y = 0.0;
        for (e = start[c]; e < start[c + 1] - 1; e++) {
            const int code = (-1 - pick[e]) / N;
            if (pick[e] >= 0) continue;
            j = (-1 - pick[e]) % N;
            row[e] = friction(code, q[j], qd[j], scale[j]) * (PREFIX_SUMMED ? qd[j] : 1.0);
        }
        if (c >= PREFIX_TORQUES)
            y = reaction[c - PREFIX_TORQUES] - known[c - PREFIX_TORQUES];
        else if (PREFIX_SUMMED)
            for (j = 0; j < N; j++) y += tau[j] * qd[j];
        else
            y = tau[c];
        row[start[c + 1] - 1] = y;
    }
}

/* Rates of the packed rows in now[0], states of a balance in now[1]. */
static void write_terms(PREFIX_sequential *s, const double *q, const double *qd, const double *qdd, const double *tau,
    const double *reaction)
{
    double x[TREE], v[TREE], a[TREE];
    int i, j, e;
    for (i = 0; i < TREE; i++) {
        x[i] = offset[i];
        v[i] = a[i] = 0.0;
        for (j = 0; j < N; j++) {
            x[i] += to_tree[i][j] * q[j];
            v[i] += to_tree[i][j] * qd[j];
            if (!PREFIX_BALANCES) a[i] += to_tree[i][j] * qdd[j];
        }
    }
    for (e = 0; e < WIDTH; e++) s->now[0][e] = s->now[1][e] = 0.0;
#if PREFIX_BALANCES && PREFIX_SUMMED
    write_sheet(s->sheet, ENERGY, x, v, a);
    for (e = 0; e < WIDTH - 1; e++)
        if (pick[e] >= 0) s->now[1][e] = s->sheet[0][pick[e]];
#elif PREFIX_BALANCES
    write_sheet(s->sheet, MOMENTUM, x, v, a);
    pack_rows(s->sheet, 1.0, qd, s->now[1]);
    write_sheet(s->sheet, GRADIENT, x, v, a);
    pack_rows(s->sheet, -1.0, qd, s->now[0]);
#else
    write_sheet(s->sheet, TORQUE, x, v, a);
    pack_rows(s->sheet, 1.0, qd, s->now[0]);
#endif
    pack_measured(q, qd, tau, reaction, s->now[0]);
}

static void add_rows(PREFIX_sequential *s)
{
    double *R = s->R;
    int c;
    for (c = 0; c < CHANNELS; c++) {
        const int size = start[c + 1] - start[c];
        s->sums[c] = s->sums[c] * PREFIX_ROOT * PREFIX_ROOT + s->row[start[c + 1] - 1];
        add_row(R, size, s->row + start[c], PREFIX_ROOT);
        R += size * size;
    }
    s->sums[CHANNELS] = s->sums[CHANNELS] * PREFIX_ROOT * PREFIX_ROOT + 1.0;
}

/* Takes the state from one sample to the next; whether a balance is complete, whose rows are then in row. */
static int advance_balance(PREFIX_sequential *s, double t)
{
    const double step = t - s->t;
    int e, k;
    if (s->seen > 1 && step > PREFIX_LATE * s->step) {
        s->seen = s->steps = s->blocks = s->slot = 0;
        for (e = 0; e < WIDTH; e++) s->block[e] = 0.0;
    }
    if (s->seen > 0) {
        for (e = 0; e < WIDTH; e++)
            s->block[e] += (s->now[1][e] - s->state[e]) + 0.5 * step * (s->now[0][e] + s->rate[e]);
        s->steps++;
    }
    s->t = t;
    s->step = step;
    if (s->seen < 2) s->seen++;
    for (e = 0; e < WIDTH; e++) {
        s->rate[e] = s->now[0][e];
        s->state[e] = s->now[1][e];
    }
    if (s->steps < STRIDE) return 0;
    for (e = 0; e < WIDTH; e++) {
        s->ring[s->slot][e] = s->block[e];
        s->block[e] = 0.0;
    }
    s->steps = 0;
    s->slot = (s->slot + 1) % SLOTS;
    if (s->blocks < SLOTS) s->blocks++;
    if (s->blocks < SLOTS) return 0;
    for (e = 0; e < WIDTH; e++) {
        s->row[e] = 0.0;
        for (k = 0; k < SLOTS; k++) s->row[e] += s->ring[k][e];
    }
    return 1;
}

/* Adds a sample; returns 1, or 0 where it lacks something, is not finite or not after the one before: nothing has
 * changed then.
 * Arguments that the model does not take may be null pointers (t: any number). */
int PREFIX_sequential_update(PREFIX_sequential *s, double t, const double q[PREFIX_JOINTS],
    const double qd[PREFIX_JOINTS], const double qdd[PREFIX_JOINTS], const double tau[PREFIX_JOINTS],
    const double reaction[PREFIX_PLATE])
{
    int j, ready = 1;
    if (!q || !qd || (!PREFIX_BALANCES && !qdd) || (PREFIX_TORQUES && !tau)) return 0;
    if (CHANNELS > PREFIX_TORQUES && !reaction) return 0;
    for (j = 0; j < N; j++) {
        if (!isfinite(q[j]) || !isfinite(qd[j])) return 0;
        if (!PREFIX_BALANCES && !isfinite(qdd[j])) return 0;
        if (PREFIX_TORQUES && !isfinite(tau[j])) return 0;
    }
    for (j = 0; j < CHANNELS - PREFIX_TORQUES; j++)
        if (!isfinite(reaction[j])) return 0;
    if (PREFIX_BALANCES && (!isfinite(t) || (s->seen && !(t > s->t)))) return 0;
    write_terms(s, q, qd, qdd, tau, reaction);
    if (PREFIX_BALANCES)
        ready = advance_balance(s, t);
    else
        for (j = 0; j < WIDTH; j++) s->row[j] = s->now[0][j];
    if (ready) add_rows(s);
    s->count++;
    return 1;
}

/* Parameters from all channels together, every channel weighted by 1 / noise (all alike where noise is a null pointer).
 * Returns 0, or the number (from 1) of a parameter that the samples do not tell yet: X is not touched then. */
int PREFIX_sequential_solve(PREFIX_sequential *s, const double noise[PREFIX_CHANNELS], double X[PREFIX_UNKNOWNS])
{
    double row[UNKNOWNS + 1];
    const double *R = s->R;
    int c, i, k;
    for (i = 0; i < (UNKNOWNS + 1) * (UNKNOWNS + 1); i++) s->A[i] = 0.0;
#if PREFIX_PRIOR
    for (i = 0; i < PREFIX_PRIOR; i++) {
        for (k = 0; k <= UNKNOWNS; k++) row[k] = prior[i][k];
        add_row(s->A, UNKNOWNS + 1, row, 1.0);
    }
#endif
    for (c = 0; c < CHANNELS; c++) {
        const int size = start[c + 1] - start[c];
        for (i = 0; i < size; i++) {
            for (k = 0; k <= UNKNOWNS; k++) row[k] = 0.0;
            for (k = i; k < size; k++) row[place[start[c] + k]] = R[i * size + k] / (noise ? noise[c] : 1.0);
            add_row(s->A, UNKNOWNS + 1, row, 1.0);
        }
        R += size * size;
    }
    return solve_factor(s->A, UNKNOWNS + 1, X);
}

#if PREFIX_LEVELS
/* Parameters of the last joint first, then on towards the base (block triangular: Ha, Ko and Kwon, eq. 2.28).
 * Returns 0, or the number (from 1) of a joint whose own block the samples do not tell yet. */
int PREFIX_sequential_solve_joint_by_joint(PREFIX_sequential *s, double X[PREFIX_UNKNOWNS])
{
    double row[UNKNOWNS + 1], own[UNKNOWNS];
    int l, i, k;
    for (k = 0; k < UNKNOWNS; k++) X[k] = 0.0;
    for (l = CHANNELS - 1; l >= 0; l--) {
        const int c = order[l], size = start[c + 1] - start[c];
        const double *R = s->R;
        int m = 0;
        for (k = 0; k < c; k++) R += (start[k + 1] - start[k]) * (start[k + 1] - start[k]);
        for (k = 0; k < size - 1; k++) m += level[place[start[c] + k]] == l;
        for (i = 0; i < (m + 1) * (m + 1); i++) s->A[i] = 0.0;
        for (i = 0; i < size; i++) {
            int at = 0;
            double y = R[i * size + size - 1];
            for (k = 0; k < size - 1; k++) {
                const int to = place[start[c] + k];
                const double x = k < i ? 0.0 : R[i * size + k];
                if (level[to] == l)
                    row[at++] = x;
                else
                    y -= x * X[to];
            }
            row[m] = y;
            add_row(s->A, m + 1, row, 1.0);
        }
        if (solve_factor(s->A, m + 1, own)) return c + 1;
        for (k = 0, i = 0; k < size - 1; k++)
            if (level[place[start[c] + k]] == l) X[place[start[c] + k]] = own[i++];
    }
    return 0;
}
#endif
