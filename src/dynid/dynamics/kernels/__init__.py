"""Compiled loops over samples: geometry in, regressor rows and their adjoints out.

Start with `rows`; `closing` and `loops` solve closed kinematic loops. Knows neither parameter names nor files.

Letters are Featherstone's (Rigid Body Dynamics Algorithms, 2008): X pose of a frame, v velocity, a acceleration,
S motion of a channel (a joint's axis, or a unit motion of the base frame), f force, I inertia; vectors are (angular;
linear at the frame's origin) and (moment about the origin; force). Joints have q, qd, qdd. The linear part of a is the
acceleration of the frame's origin minus gravity, not Featherstone's v', which is smaller by w x v.

Arrays inside a kernel are flat, with these rows (numbers of an entry, its offset's name above it):

    links, a row per link, LINK = 24       0         POSITION  V              A
                                           | R 3 x 3 | p 3   | v: w 3, v 3   | a: wd 3, acc 3 |
                                           | X in the parent's frame | in the link's own frame |
    world, a row per link, POSE = 12       0         POSITION
                                           | R 3 x 3 | p 3   |      X in the base frame
    S, v, a, f, ..., rows of SPATIAL = 6   0             LINEAR
                                           | angular 3 | linear 3 |
    base_frame, a row per sample or        0            A - V          GRAVITY  HEIGHT
    one for all, BASE_FRAME = 16           | v: w, v 6  | a: wd, acc 6 | g 3    | -g.p 1 |      in its own axes
    a body's BODY = 10 parameters          XX XY XZ YY YZ ZZ (about the frame's origin) MX MY MZ M

S and f of channel k at link i stand at row i * width + k, width = channels of the base frame + joints of the tree.
"""
