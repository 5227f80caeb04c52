//! The hand-written stems of the vocabulary: plain English stems by word class, separated by white space. Longer words
//! are derived from them (see `vocabulary`).

/// Nouns that also serve as the halves of compounds ("lamp" + "wood").
pub(super) const NOUNS: &str = "
ant arc ark arm ash axe bag bar bat bay bed bee bell bin bird boat bolt bone book boot
bow box branch bread brick bridge brook broom brush bud bulb bull bus bush cab cake calf camp can
cap car card cart cat cave chain chair chalk chest child chin chord city claw clay cliff cloak
clock cloth cloud clove clue coal coast coat cod coin comb cook cord cork corn cot couch court cow
crab craft crane creek crest crop crow crown crumb crust cube cup curb cure curl dart dawn day
deck deer den desk dew dish ditch dock dog doll dome door dot dove draft dream dress drift drill
drop drum duck dune dusk dust eagle ear earth east edge eel egg elbow elk elm ember engine eye face
fact fair fan farm fawn feast fence fern fiber field fig file film fin fire fish fist flag flame
flask flax fleet flint flock floor flour flute foam fog foil folk food foot ford forest fork form
fort fox frame frost fruit fuel fur game gap garden gate gear gem giant gift girl glass glen globe
glove glow glue goal goat gold gown grain grape graph grass grid grove guest guide gull gum hail
hair hall ham hand hare harp hat hawk hay haze head heart heat hedge heel hen herb herd hill hinge
hive hook hoop horn horse host hour house hull hut ice inch inn iron island ivy jam jar jaw jet
jewel job joint joke judge jug juice jury kale keel key king kit kite knee knife knob knot lace lad
lake lamb lamp land lane lark lash latch law lawn lead leaf leg lens letter lid light lily limb
lime line link lion lip list loaf loam lock loft log loom loop lord loss lot lung lute lynx mail
man map maple mare mark marsh mask mast mat match meadow meal melon memo mesh metal mile milk mill
mind mine mint mist moat mole monk month moon moor morning moss moth mound mouse mouth mud mug mule
muse myth nail name neck needle nest net nickel niece night node noise noon north nose note nut
oak oar oat ocean office oil olive onion orbit orchard ore organ otter oven owl ox pad page pail
paint palm pan panel paper park part pass past patch path paw pea peach pear pearl peat pebble pen
perch pet piano pie pier pig pile pill pin pine pipe pit plain plan plane plank plant plate plot
plow plum poem poet pole pond pony pool port post pot pouch powder prince print prism pump pupil
purse quail quarry quart queen quest quill quilt rack raft rail rain rake ram ramp ranch ray reed
reef rib ribbon rice ridge ring river road robe robin rock rod roof room root rope rose row ruby
rug rule rust sack saddle sage sail salad salt sand sash saw scale scar scarf school score screen
screw sea seal seam seat seed shade shaft shark shed sheep shelf shell shield ship shirt shoe shop
shore shrub sign silk silver sink sister skate sketch skill skin skirt sky slate sled sleeve slope
smoke snail snake snow soap sock sofa soil song soot sound soup source south space spade spark
spear spice spine spoon spot spring spur square stable stack staff stage stair stake stall stamp
star stem step stick stone stool store storm story stove straw stream street string sugar suit sun
swamp swan sweater sword table tack tail tale tank tap tape task tea team tear temple tent term
test text theme thorn thread throne thumb tide tie tiger tile timber time tin tip toad toast toe
tomb tone tool tooth top torch tower town toy track trade trail train tray tree trench trout truck
trunk tub tube tulip tuna tune turf turtle twig twin urn vale valley van vase vault veil vein vest
village vine violin voice wagon wall walnut wasp watch water wave wax web weed week well west whale
wharf wheat wheel whip wick widow willow wind window wine wing winter wire wolf wood wool word work
world worm wreath wren wrist yard yarn year yoke zone acorn album alley almond amber anchor angle
apple apron arena arrow atlas attic autumn badge bagel baker balcony ballad bamboo banjo banner
barley barn barrel basin basket beacon beam beard beast beaver bench berry bishop blade blanket
blossom border bottle boulder bracket brass breeze bronze bucket buffalo bundle butter button
cabin cable cactus camel canal candle canoe canvas canyon captain caravan carbon cargo carpet
carrot castle cavern cedar cellar cereal channel chapel chariot cherry chimney circle clover
cluster cobalt coffee collar colony column comet compass copper coral corner cottage cotton
cradle crater cricket crystal curtain cushion dagger daisy diamond dinner dolphin domain donkey
dragon drawer eclipse elephant emerald envelope fabric falcon farmer feather festival fiddle
finger flower fountain freckle furnace galaxy garlic garnet gazelle ginger glacier goblet granite
gravel griddle guitar hammer hammock hamlet harbor harvest hazel heron hickory holiday hollow
honey hornet hunter insect jacket jasmine jungle juniper kettle kitchen kitten ladder lagoon
lantern laurel lavender leather ledger lemon leopard lizard lobster locket magnet magpie mammoth
mantle marble market marrow meteor minute mirror mitten monarch mortar mosaic mountain muffin
museum mustard napkin nectar nephew nutmeg oyster paddle palace pancake panther parade parcel
parlor parsley pasture pelican pencil pepper petal pewter pheasant pickle picnic pigeon pillar
pillow pirate pistol planet platter plaza pocket pollen poplar poppy portal potato prairie
pretzel pumpkin puppet puzzle quartz rabbit radish raisin raven reptile riddle ripple rocket
rooster rudder saffron salmon sandal sapphire satchel saucer scholar scissor season shadow
shepherd shovel shower signal sleigh slipper sparrow spider spindle spinach sponge squirrel
station statue steeple stirrup stocking summit sunset surface swallow syrup tailor talon tavern
teapot thimble thistle thunder ticket tinder tobacco tomato topaz tractor treasure trellis
triangle trumpet tundra tunnel turnip tuxedo twilight umbrella valve vanilla velvet vendor vessel
vinegar vintage violet volcano voyage wallet warden weasel whistle wizard wrench zebra zephyr
";

/// Regular verbs, in the infinitive.
pub(super) const VERBS: &str = "
act add aim ask bake bathe beg blend blink bless bloom board boast boil borrow bounce bow brew
broil bruise brush build burn call care carve catch chase cheer chop claim clap clean clear climb
cling cook cool copy cough count crack crawl cross crush cry dance dare darn dash deal decay deny
dig dine dip dive double doubt draw dream dress drift drill drop dry dump earn ease eat empty end
enjoy enter fade fail fasten feed fetch fill film fit fix flap float flood flow fold follow force
form frame fry gain gallop gather gaze glide glow grab greet grin grind grip groan guard guess
guide hail halt hammer hand hang harm haul heal hear heat help hike hint hop hope hover howl hug
hum hunt hurry invent iron jog join joke judge juggle jump kick knit knock label land last laugh
launch lean leap learn level lick lift light like linger list listen live load lock long look love
march mark marry match melt mend mix mourn move mow nail name need nest nod note obey offer open
order own pack paint park part pass paste pat pause pay peel pick pinch plan plant play plead plow
plug point polish pour pray press print probe pull pump push quilt race raid rain raise rake reach
read relax rely rent rest rhyme rinse risk roam roar roast rob rock roll row rub ruin rule run rush
sail save scan scare scold scoop score scrape scratch scrub seal search sell send serve settle sew
shape share shave shelter shift shine ship shout show sigh sign sing sip skate sketch skip slice
slide slip smell smile smooth sneeze sniff snore soak sort spark spell spin splash split spoil spot
spray spread sprout stack stamp stare start stay steer stir stitch stop store stretch stroll study
swell swim swing tame tap taste teach tear tease tempt test thank think throw tie tickle tilt toast
toss touch tour tow trace track trade train trap travel treat trim trip trot trust try tug tumble
turn twist type unite use vanish view visit wade wait wake walk wander want warm warn wash waste
watch water wave wear weave weigh whirl whisper wink wipe wish wonder work worry wrap wreck yawn
yell yield zoom absorb adapt admire admit advise agree amuse announce appear approve arrange arrive
assist attach attack attempt attend attract balance behave belong calculate collect combine
command compare compete complain complete concern confess connect consider consist contain
continue convert convince correct create cultivate decide decorate deliver depend describe deserve
destroy detect develop disagree disappear discover divide educate embrace employ encourage
entertain escape estimate examine excite excuse exercise exist expand expect explain explode
explore extend fancy gather grate guarantee harvest identify imagine impress improve include
increase inform inject inquire inspect intend interest introduce manage measure memorize modify
multiply navigate notice observe obtain occupy operate organize perform permit persuade place
please possess practice prefer prepare present preserve prevent produce promise propose protect
provide publish puncture purchase question realize receive recite recognize record recover reduce
reflect refuse regret release remain remember remind remove repair repeat replace reply report
rescue respect restore retire return reveal reverse review reward satisfy scatter separate
shiver simmer sparkle sprinkle stagger strengthen stumble succeed suggest supply support suppose
surprise surround suspect tremble trouble uncover understand wrestle
";

/// Adjectives.
pub(super) const ADJECTIVES: &str = "
able aged airy alert alive ample apt arid avid azure bald bare basic beige big bitter black bland
blank bleak blond blue blunt bold brave brief bright brisk broad brown bulky busy calm chief civil
clean clear clever close cloudy clumsy coarse cold cool coy cozy crisp cruel curly curt curved cute
daily damp daring dark dear deep dense dim dire dry dual due dull dusty eager early easy elder
empty even exact faint fair false famous fancy fast fat feeble few fierce final fine firm first
fit flat fleet fluffy fond formal frail frank free fresh full funny gentle giddy glad global glossy
golden good grand grave gray great green grim gritty gruff handy happy hard harsh hazy heavy hefty
high hollow honest hot huge human humble hungry icy ideal idle inner jade jolly juicy keen kind
known lame large last late lavish lazy lean legal light likely limp little live lively local lofty
lone long loose loud low loyal lucky lush mad main major mature meek mellow merry mild minor misty
modern modest moist moral moving muddy murky mute narrow native neat new next nice nimble noble
noisy novel numb odd old open outer oval pale past patient placid plain plump plush polite poor
prim prime prior prompt proper proud pure quaint quick quiet rapid rare raw ready real red regal
rich rigid ripe robust roomy rosy rotten rough round royal rude rural rusty sacred sad safe salty
same sandy sane savory scarce secret secure senior serene severe shabby shady shaky shallow sharp
shiny short shrill shy silent silky silly simple single sleek sleepy slender slick slight slim slow
small smart smoky smooth snug sober social soft solar solemn solid sore sour spare sparse spicy
stable stale stark steady steep stern sticky stiff still stormy stout strange strict strong stupid
sturdy subtle sudden sulky sunny super sure sweet swift tall tame tan tart tasty tender tense tepid
thick thin thirsty thorough tidy tight tiny tired tough trim true twin ugly unique upper urban
usual vague vain valid vast vivid vocal wan warm wary watery weak weary weekly weird wet white whole
wicked wide wild wiry wise witty wooden woolen worthy wry young zany active actual aloof amazing
ancient anxious artful awkward balanced barren boundless careful careless cautious charming
cheerful colorful common complete complex constant content courteous creative curious dazzling
decent delicate desirable different diligent distant earnest elaborate elegant enormous essential
excellent faithful familiar fearless fertile flexible forgetful fortunate fragile frequent
frightful generous genuine glorious graceful gracious grateful handsome harmless helpful hopeful
important innocent intense joyful kindly leafy literate lovable magical majestic marvelous massive
meaningful melodic mindful musical mysterious natural nervous obedient obvious ordinary original
painful peaceful perfect pleasant plentiful polished popular powerful practical precious pretty
private probable profound public quarterly radiant reasonable reliable remarkable resourceful
scenic sensible separate serious sincere skillful spacious special spirited splendid spotless
standard stunning suitable superb talented thankful thoughtful timely tranquil truthful typical
useful valuable vibrant victorious vigorous virtuous wealthy wonderful youthful zealous
";

/// Prefixes of words.
pub(super) const PREFIXES: [&str; 16] = [
    "re", "un", "over", "under", "out", "pre", "mis", "non", "inter", "counter", "semi", "super",
    "sub", "fore", "multi", "trans",
];
