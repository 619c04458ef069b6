"use strict";
// What makes the desk quicker. Every page works without it: a script only spares a person a step, it decides nothing.
